#!/bin/sh
# The Atari machine beside the Arcade Learning Environment, game by game, in one run.
# Needs a Python with ale-py at SPECTRAL_PYTHON (else python3). Usage: benches/atari_speed.sh [GAME...]
set -eu
cd "$(dirname "$0")/.."
python=${SPECTRAL_PYTHON:-python3}
frames=${FRAMES:-3000}
[ $# -gt 0 ] || set -- pong atlantis ms_pacman video_pinball
roms=$("$python" -c "import ale_py, os; print(os.path.join(os.path.dirname(ale_py.__file__), 'roms'))")
cargo build --quiet --release -p spectral-rl-atari --example atari_speed
target=${CARGO_TARGET_DIR:-target}
printf '%-20s %10s %10s %7s %10s %10s %7s\n' game ours ale ratio 'ours drawn' 'ale drawn' ratio
for game in "$@"; do
    ours=$("$target/release/examples/atari_speed" "$roms" "$frames" "$game")
    theirs=$("$python" benches/atari_speed.py "$frames" "$game" 2>/dev/null)
    echo "$ours $theirs"
done | awk '{
    printf "%-20s %10d %10d %7.2f %10d %10d %7.2f\n", $1, $2, $5, $2 / $5, $3, $6, $3 / $6
    undrawn += log($2 / $5); drawn += log($3 / $6); n++
} END { printf "%-20s %29.2f %29.2f\n", "geometric mean", exp(undrawn / n), exp(drawn / n) }'
