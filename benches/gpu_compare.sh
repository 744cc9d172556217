#!/bin/sh
# The training step and acting on this machine's GPU: ours, PyTorch and JAX one after the other, then their ratios.
#
#   SPECTRAL_BENCH=path/to/spectral-bench SPECTRAL_PYTHON=path/to/python benches/gpu_compare.sh [LOG]
#
# Without SPECTRAL_BENCH, the binary in the target directory is used (and built where there is a cargo). The Python needs
# torch and jax with CUDA, and numpy. BUDGET is the most seconds that each peer may take (90), POPULATIONS the numbers of
# agents, OPTIONS more options of `spectral-bench gpu`, LIMIT its most seconds (140); SELFTEST=1 first checks that both
# peers compute the same update. All output goes to LOG as well, if it is named.
set -eu
cd "$(dirname "$0")/.."
python=${SPECTRAL_PYTHON:-python3}
ours=${SPECTRAL_BENCH:-${CARGO_TARGET_DIR:-target}/release/spectral-bench}
budget=${BUDGET:-90}
populations=${POPULATIONS:-20,1,5,64}
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

if [ -z "${SPECTRAL_BENCH:-}" ] && command -v cargo >/dev/null; then
    cargo build --release --quiet -p spectral-rl-bench
fi

run() { # name, then a command: shows and keeps its standard output, and goes on if it fails
    name=$1
    shift
    echo "== $name: $*"
    { "$@" || echo "# $name ended with code $?"; } | tee "$results/$name.txt"
}

compare() {
    date -u '+# %Y-%m-%d %H:%M UTC'
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm --format=csv,noheader 2>/dev/null ||
        echo "# no nvidia-smi here"
    if [ "${SELFTEST:-0}" = 1 ]; then
        run selftest-torch "$python" benches/peers/torch_gpu.py --selftest --save "$results/torch.npz"
        run selftest-jax "$python" benches/peers/jax_gpu.py --selftest --against "$results/torch.npz"
    fi
    # shellcheck disable=SC2086 # options are several words
    run ours timeout -k 5 "${LIMIT:-140}" "$ours" gpu --json --populations "$populations" ${OPTIONS:-}
    run torch "$python" benches/peers/torch_gpu.py --budget-seconds "$budget" --populations "$populations" ${QUICK:+--quick}
    run jax "$python" benches/peers/jax_gpu.py --budget-seconds "$budget" --populations "$populations" ${QUICK:+--quick}
    echo "== ratios"
    "$python" benches/gpu_compare.py "$results/ours.txt" "$results/torch.txt" "$results/jax.txt"
}

if [ $# -gt 0 ]; then
    mkdir -p "$(dirname "$1")"
    compare 2>&1 | tee "$1"
else
    compare
fi
