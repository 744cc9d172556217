#!/bin/sh
# Everything about this machine's GPU in one call, within eight minutes: what there is, updates and acting beside PyTorch and
# JAX, replay that does not fit, training from end to end. The log names hardware and versions and is meant to be kept:
#
#   SPECTRAL=path/to/spectral SPECTRAL_BENCH=path/to/spectral-bench SPECTRAL_PYTHON=path/to/python \
#       benches/gpu_bench.sh benches/results/gpu.txt
#
# Without SPECTRAL and SPECTRAL_BENCH, the binaries in the target directory are used. TESTS may name test programs to run
# first (paths, separated by spaces). PRECISION is the arithmetic of the parts that measure only one (bf16). PARTS picks
# parts: "tests machine compare spill train". Atari is measured where its ROMs are installed (spectral roms). Every part has
# a time limit of its own and is followed by the next whatever happens; the exit code is that of the first part that failed.
set -u
cd "$(dirname "$0")/.."
[ $# -eq 1 ] || { echo "usage: benches/gpu_bench.sh LOG" >&2; exit 2; }
log=$1
ours=${SPECTRAL_BENCH:-${CARGO_TARGET_DIR:-target}/release/spectral-bench}
command=${SPECTRAL:-${CARGO_TARGET_DIR:-target}/release/spectral}
precision=${PRECISION:-bf16}
parts=${PARTS:-tests machine compare spill train}
case $ours in */*) ;; *) ours=$(command -v "$ours") ;; esac
[ -x "$ours" ] || { echo "no spectral-bench at $ours: build it (cargo build --release -p spectral-rl-bench) or set SPECTRAL_BENCH" >&2; exit 2; }
mkdir -p "$(dirname "$log")"
failures=$(mktemp)
trap 'rm -f "$failures"' EXIT
began=$(date +%s)

wanted() { case " $parts " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

part() { # seconds, then a command
    limit=$1
    shift
    echo
    echo "== $* (at most $limit s)"
    timeout -k 5 "$limit" "$@"
    code=$?
    [ $code -eq 0 ] && return
    [ $code -eq 124 ] && echo "# stopped after $limit s"
    echo "# ended with code $code"
    echo $code >>"$failures"
}

all() {
    date -u '+# %Y-%m-%d %H:%M UTC'
    wanted tests && for test in ${TESTS:-}; do part 60 "$test" --nocapture; done
    if wanted machine; then
        part 15 nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit,clocks.sm,clocks.max.sm,clocks.max.mem --format=csv
        part 15 "$ours" --version
        part 15 "$command" doctor
    fi
    wanted compare && SPECTRAL_BENCH=$ours OPTIONS="${OPTIONS:---seconds 0.5}" BUDGET=${BUDGET:-70} part 290 benches/gpu_compare.sh
    wanted spill && part 40 "$ours" gpu --spill --populations 20 --precision "$precision" --seconds 0.5
    wanted train && part 100 "$ours" gpu --end-to-end --precision "$precision" --seconds "${SECONDS_OF_TRAINING:-10}"
    echo
    echo "# all of it took $(($(date +%s) - began)) s"
}

all 2>&1 | tee "$log"
exit "$(head -n 1 "$failures" | grep . || echo 0)"
