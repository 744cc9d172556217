#!/usr/bin/env bash
# Builds tests and the `spectral` command for 64-bit ARM on an x86-64 machine, and runs them under an emulator.
# Usage: tests/attacks/aarch64.sh [all|tests|demo] [PACKAGE...]. By default it takes all, and the packages named below.
# Needs Rust with rustup, a network, an emulator (qemu-user 7 or newer), a linker and a C library for ARM; as root on Debian or a
# relative of it, it installs what is missing.
# Left out: packages that are about files for people, servers and clusters (report, live, cluster, cli), whose tests start programs of their
# own, and those of Python and of GPUs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target=aarch64-unknown-linux-gnu
triple=aarch64-linux-gnu
begun=$SECONDS

fail() {
    printf '\ntests/attacks/aarch64.sh: %s\n' "$*" >&2
    exit 1
}

say() {
    printf '\n=== [%4d s] %s\n' $((SECONDS - begun)) "$*"
}

# install WANTED PACKAGE...: installs Debian's packages where there is no such command or file.
install() {
    local wanted=$1
    shift
    if [[ -e $wanted ]] || command -v "$wanted" >/dev/null; then
        return
    fi
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        fail "'$wanted' is missing, and only root on a system with apt-get can install it here: install it ($*) and run again"
    fi
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$@" >/dev/null
    [[ -e $wanted ]] || command -v "$wanted" >/dev/null || fail "apt-get installed $*, but '$wanted' is not found"
}

# one EXECUTABLE TEST: runs a single test, and says what became of it in one line; what it printed, only if it failed or skipped.
one() {
    local out status=0 emulator=(qemu-aarch64-static -L "/usr/$triple")
    out=$(timeout --kill-after=10 "$longest" "${emulator[@]}" "$1" "$2" --exact --nocapture --test-threads=1 2>&1) || status=$?
    grep -o 'SKIPPED:.*' <<<"$out" || true
    if ((status == 0)) && grep -q '^test result: ok. 1 passed' <<<"$out"; then
        printf 'ok      %s %s\n' "$(basename "$1")" "$2"
    elif ((status == 0)) && grep -q '; 1 ignored;' <<<"$out"; then
        printf 'ignored %s %s\n' "$(basename "$1")" "$2"
    else
        printf 'FAILED  %s %s (exit code %d)\n%s\n' "$(basename "$1")" "$2" "$status" "$out"
    fi
}

# The tests of these packages, documentation's included. Each has a process of its own: the emulator never gives back the memory of a
# thread that ended, 21 GB in an hour of spectral-rl-train's tests, and crashes now and then if several threads load libraries.
test_packages() {
    local package programs program name status=0
    for package in "${packages[@]}"; do
        say "$package"
        programs=$(cargo test --release --locked --no-run --target "$target" --package "$package" --lib --tests 2>&1 |
            tee >(cat >&2) | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
        # As cargo does, in the folder of the package.
        pushd "crates/${package/spectral-rl-/spectral-}" >/dev/null
        for program in $programs; do
            program=$OLDPWD/$program
            "${emulator[@]}" "$program" --list --format terse | sed -n 's/: test$//p' | { grep -vx "$left_out" || true; } | while read -r name; do
                printf '%s\0%s\0' "$program" "$name"
            done
        done | xargs -0 -r -n 2 -P "$(nproc)" bash -c 'one "$@"' one | tee -a "$log"
        popd >/dev/null
        cargo test --release --locked --doc --target "$target" --package "$package" 2>&1 | tee -a "$log" || status=1
    done
    say "what became of them"
    printf '%d tests passed, %d failed\n' "$(grep -c '^ok      ' "$log")" "$(grep -c '^FAILED  ' "$log")"
    awk '/Doc-tests/ { docs = 1 } docs && /^test result: / { docs = 0; passed += $4; failed += $6; ignored += $8 }
         END { printf "examples in documentation: %d passed, %d failed, %d ignored\n", passed, failed, ignored }' "$log"
    echo "left out: $left_out"
    grep -o '^SKIPPED:.*' "$log" | sort | uniq -c || echo "none was skipped"
    grep '^FAILED  ' "$log" && fail "tests failed (above)"
    ((status == 0)) || fail "examples in documentation failed (above)"
}

# A short run of everything that the command does: training, a report with figures, and playing what was learned.
demo() {
    local folder
    folder=$(mktemp -d)
    cargo build --release --locked --target "$target" --package spectral-rl-cli
    emulated() { "${emulator[@]}" "$PWD/target/$target/release/spectral" "$@"; }
    emulated --version
    emulated doctor
    emulated demo --frames 3000 --seeds 1 --out "$folder/demo"
    rm -rf -- "$folder"
}

what=${1:-all}
[[ $# == 0 ]] || shift
packages=("$@")
((${#packages[@]} > 0)) || packages=(spectral-rl-core spectral-rl-env spectral-rl-nn spectral-rl-agent spectral-rl-train)

say "tools"
install qemu-aarch64-static qemu-user-static
install "$triple-gcc" "gcc-$triple" libc6-dev-arm64-cross
# Tests compile GPU code for the processor that they run on, and load it.
install "$triple-g++" "g++-$triple"
install "/usr/$triple/lib/libgcc_s.so.1" libgcc-s1-arm64-cross
[[ -d $(rustc --print sysroot)/lib/rustlib/$target ]] || rustup target add "$target" ||
    fail "the standard library for $target is missing, and rustup did not add it: 'rustup target add $target'"
emulator=(qemu-aarch64-static -L "/usr/$triple")
# Its bound is for runs of a second: progress that is told ten times a second allocates, and runs take a minute here.
left_out=steps_allocate_nothing
# Seconds that one test may take.
longest=${LONGEST:-3600}
export CXX=$triple-g++
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$triple-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="${emulator[*]}"
rustc --version
qemu-aarch64-static --version | head -n 1
log=$(mktemp)
trap 'rm -f -- "$log"' EXIT
# For the shells that run single tests; arrays are not exported.
export longest triple
export -f one

case $what in
all | tests)
    say "tests of ${packages[*]}"
    test_packages
    ;;&
all | demo)
    say "spectral demo"
    demo
    ;;
tests) ;;
*) fail "'$what' is none of all, tests and demo" ;;
esac
say "PASSED"
