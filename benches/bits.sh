#!/bin/sh
# Trains small runs with fixed seeds on the CPU and prints the checksum of every table that they leave. Two versions compute
# the same if they print the same:
#
#   SPECTRAL=path/to/spectral benches/bits.sh > here.txt && diff benches/results/bits-0.1.txt here.txt
#
# Bits depend on the CPU's vector instructions; the kept file is of a CPU with AVX2 and without AVX-512. Atari runs need ROMs (spectral roms).
set -eu
command=${SPECTRAL:-$(dirname "$0")/../target/release/spectral}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
small="--seeds 1 --frames 12000 --set learning_starts=2000 --set replay=4000 --set epsilon_frames=4000 --device cpu"
{
    "$command" demo --seeds 1 --out "$work/demo"
    "$command" reproduce mini-fig3 --seeds 1 --calibrate 0 --out "$work/mini-fig3"
    "$command" train --task atari/pong --agents spectral,categorical $small --out "$work/atari/pong"
    "$command" train --task ponglantis --agents popart,compressed,clipped $small --set protocol=machado --out "$work/atari/ponglantis"
} >&2
cd "$work"
# The names of a figure's run folders contain a fingerprint, which is not a result.
find . -path '*/agents/*' -name '*.csv' | sed 's|^\./||' | while read -r file; do
    printf '%s  %s\n' "$(sha256sum <"$file" | cut -d ' ' -f 1)" "$(echo "$file" | sed 's|/quick-[0-9a-f]*/|/|')"
done | sort -k 2
