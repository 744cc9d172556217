#!/bin/sh
# How whole steps of Atari tasks scale from one core to all of them, beside the Arcade Learning Environment's own ways of
# using many cores, in one run. Nothing else should run on the machine. Needs a Python with ale-py and OpenCV at
# SPECTRAL_PYTHON (else python3). Usage: [CORES=N] [SECONDS_EACH=S] benches/atari_scaling.sh [GAME...]
set -eu
cd "$(dirname "$0")/.."
python=${SPECTRAL_PYTHON:-python3}
cores=${CORES:-$(nproc)}
seconds=${SECONDS_EACH:-5}
[ $# -gt 0 ] || set -- pong ms_pacman
roms=$("$python" -c "import ale_py, os; print(os.path.join(os.path.dirname(ale_py.__file__), 'roms'))")
if [ -z "${ATARI_SCALING:-}" ]; then
    cargo build --quiet --release -p spectral-rl-atari --example atari_scaling
    ATARI_SCALING=${CARGO_TARGET_DIR:-target}/release/examples/atari_scaling
fi
measure() {
    echo "ours $("$ATARI_SCALING" "$roms" "$seconds" "$1" "$2")"
    "$python" benches/atari_scaling.py "$seconds" "$1" "$2" 2>/dev/null
}
printf '%-12s %-14s %14s %14s %8s\n' game who 'one core' "$cores cores" scaling
for game in "$@"; do
    one=$(measure 1 "$game")
    all=$(measure "$cores" "$game")
    printf '%s\n%s\n' "$one" "$all" | awk -v game="$game" '
        $1 in one {
            printf "%-12s %-14s %14d %14d %8.2f\n", game, $1, one[$1], $2, $2 / one[$1]
            if ($1 == "ours") { ours = $2; gain = ours / one[$1] }
            else {
                if ($2 > best) best = $2
                if (one[$1] > single) single = one[$1]
            }
            next
        }
        { one[$1] = $2 }
        END {
            printf "%-12s ours / the best of ALE each time: %.2f on one core, %.2f on all; scaling %.2f against %.2f\n", \
                game, one["ours"] / single, ours / best, gain, best / single
        }'
done
