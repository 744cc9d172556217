#!/usr/bin/env bash
# Miri on what it can run: kernels of networks in plain Rust and with AVX2, replay, the painting of Atari's pictures and their
# preprocessing. It looks for undefined behaviour: accesses outside of a buffer, at a wrong alignment or to memory that was not
# written, and references that contradict each other.
#
#   tests/attacks/miri.sh [LOG]
#
# Needs a nightly toolchain with Miri (`rustup +nightly component add miri rust-src`). Miri interprets, some thousand times slower than
# a processor, so these are the tests that are small. It cannot run what calls CUDA, code that the translator makes while it runs, or
# AVX-512, which AddressSanitizer looks at (asan.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
log=${1:-/dev/null}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target/miri}
# Temporary folders, clocks and the processor's features are the machine's.
export MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=1

interpret() {
    printf '\n=== cargo miri test %s\n' "$*"
    cargo +nightly miri test "$@" 2>&1 | grep -E '^(test |error|warning: unused)|Undefined Behavior|panicked|unsupported operation|^ +--> '
}

with_avx2() {
    RUSTFLAGS="-Ctarget-feature=+avx2,+fma" interpret "$@"
}

run() {
    echo "# $(rustc +nightly --version); $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1); tests/attacks/miri.sh"
    interpret -p spectral-rl-core --lib -- --skip moments_are_right
    interpret -p spectral-rl-nn --test bounds --test population
    with_avx2 -p spectral-rl-nn --test bounds
    with_avx2 -p spectral-rl-nn --test gradients acting_and_training_forwards_agree
    interpret -p spectral-rl-agent --lib replay
    interpret -p spectral-rl-atari --lib machine::tia
    with_avx2 -p spectral-rl-atari --lib machine::tia
    interpret -p spectral-rl-atari --lib preprocess
    printf '\nno error was found\n'
}

run 2>&1 | tee "$log"
