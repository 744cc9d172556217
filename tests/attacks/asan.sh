#!/usr/bin/env bash
# AddressSanitizer on what has unsafe code and runs on a CPU: the vector kernels of networks in all instruction sets of this machine,
# the painting of Atari's pictures and their preprocessing, and the machine's two engines on random programs.
#
#   tests/attacks/asan.sh [LOG]
#
# Needs a nightly toolchain (`rustup toolchain install nightly`), or TOOLCHAIN=stable, which is then told to take nightly options.
# Code that the translator makes while it runs is not instrumented: what Rust does for it is, and valgrind, if it is there, looks at
# all memory that such code touches.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
log=${1:-/dev/null}
toolchain=${TOOLCHAIN:-nightly}
[[ $toolchain == nightly* ]] || export RUSTC_BOOTSTRAP=1
target=$(rustc "+$toolchain" -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target/asan}
# Proptest's own files and the temporary allocator's leaks at exit are no errors of ours.
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0 PROPTEST_CASES=${PROPTEST_CASES:-64}

attack() {
    printf '\n=== cargo test %s\n' "$*"
    RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes" \
        cargo "+$toolchain" test --release --target "$target" "$@" -- --test-threads 2
}

under_valgrind() {
    printf '\n=== valgrind %s\n' "$*"
    local program
    program=$(cargo test --release --no-run --message-format json -p spectral-rl-atari --test machine_engines |
        sed -n 's/.*"executable":"\([^"]*machine_engines[^"]*\)".*/\1/p' | tail -n 1)
    PROPTEST_CASES=3 valgrind --error-exitcode=9 --smc-check=all-non-file --leak-check=no -q "$program" "$@"
}

run() {
    echo "# $(rustc "+$toolchain" --version); $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1); tests/attacks/asan.sh"
    attack -p spectral-rl-nn --lib --tests
    attack -p spectral-rl-atari --lib
    attack -p spectral-rl-atari --test machine_engines
    if command -v valgrind >/dev/null; then
        under_valgrind random_programs endless_programs
    else
        printf '\nvalgrind is not here: what translated code touches was not looked at\n'
    fi
    printf '\nno error was found\n'
}

run 2>&1 | tee "$log"
