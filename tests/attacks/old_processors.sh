#!/usr/bin/env bash
# Runs what depends on vector instructions on x86-64 processors that lack them: an emulator plays one of 2003, with SSE2 and no more,
# and one with AVX2 but not AVX-512.
# Usage: tests/attacks/old_processors.sh [MODEL...], models being those of `qemu-x86_64-static -cpu help`.
# Needs Rust and an emulator (qemu-user 7.2 or newer, the first that knows AVX2); as root on Debian or a relative of it, it installs it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

(($# > 0)) || set -- Opteron_G1 Haswell
begun=$SECONDS

fail() {
    printf '\ntests/attacks/old_processors.sh: %s\n' "$*" >&2
    exit 1
}

say() {
    printf '\n=== [%4d s] %s\n' $((SECONDS - begun)) "$*"
}

if ! command -v qemu-x86_64-static >/dev/null; then
    [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || fail "install qemu-user-static, which has qemu-x86_64-static, and run again"
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends qemu-user-static >/dev/null
fi
qemu-x86_64-static --version | head -n 1

# A test that ran for more than a quarter of an hour under the emulator, and says nothing about instructions that the others do not say.
left_out=(populations_and_threads_change_no_bit)

# Kernels against PyTorch's results and against each other, bits against those of version 0.1, the Atari machine's painting and
# translator, and its preprocessing.
try() {
    local emulator="qemu-x86_64-static -cpu $1" folder log status=0
    folder=$(mktemp -d)
    log=$folder/log
    export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$emulator RUST_TEST_NOCAPTURE=1
    {
        cargo test --release --locked --no-fail-fast --lib --tests --package spectral-rl-nn -- \
            "${left_out[@]/#/--skip=}" &&
            cargo test --release --locked --package spectral-rl-train --test version_0_1 &&
            cargo test --release --locked --no-fail-fast --lib --test machine_engines --test machine_instructions \
                --test preprocess_area --package spectral-rl-atari
    } >"$log" 2>&1 || status=$?
    grep -E '^test .* FAILED' "$log" || true
    awk '/^test result: / { programs++; passed += $4; failed += $6; ignored += $8 }
         END { printf "%d programs: %d tests passed, %d failed, %d ignored\n", programs, passed, failed, ignored }' "$log"
    grep -o 'SKIPPED:.*' "$log" | sort | uniq -c || true
    ((status == 0)) || { tail -n 40 "$log"; fail "tests failed on $1"; }
    # The command itself, its report included.
    cargo build --release --locked --quiet --package spectral-rl-cli
    $emulator target/release/spectral doctor | grep 'vector instructions'
    $emulator target/release/spectral demo --frames 3000 --seeds 1 --out "$folder/demo" 2>&1 | tail -n 5
    rm -rf -- "$folder"
}

for model in "$@"; do
    say "$model"
    try "$model"
done
echo "left out: ${left_out[*]}"
say "PASSED"
