#!/bin/sh
# Steps of an Atari task (four frames, the last two grey, pooled, 84 × 84) beside the Arcade Learning Environment with
# OpenCV doing the same, game by game, in one run. Needs a Python with ale-py and OpenCV at SPECTRAL_PYTHON (else
# python3). Usage: benches/atari_preprocess.sh [GAME...]
set -eu
cd "$(dirname "$0")/.."
python=${SPECTRAL_PYTHON:-python3}
frames=${FRAMES:-8000}
[ $# -gt 0 ] || set -- pong atlantis ms_pacman video_pinball
roms=$("$python" -c "import ale_py, os; print(os.path.join(os.path.dirname(ale_py.__file__), 'roms'))")
cargo build --quiet --release -p spectral-rl-atari --example atari_preprocess
target=${CARGO_TARGET_DIR:-target}
printf '%-20s %10s %10s %7s   %s\n' game ours ale ratio 'a step of ours: emulation + preprocessing'
for game in "$@"; do
    ours=$("$target/release/examples/atari_preprocess" "$roms" "$frames" "$game")
    theirs=$("$python" benches/atari_preprocess.py "$frames" "$game" 2>/dev/null)
    echo "$ours $theirs"
done | awk '{
    printf "%-20s %10d %10d %7.2f   %.1f + %.1f microseconds\n", $1, $2, $6, $2 / $6, $3, $4
    sum += log($2 / $6); n++
} END { printf "%-20s %29.2f\n", "geometric mean", exp(sum / n) }'
