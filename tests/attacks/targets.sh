#!/usr/bin/env bash
# Checks that everything compiles for systems that the tests do not run on: types, names and lints, tests included; nothing is linked.
# Usage: tests/attacks/targets.sh [TARGET...]. Without a name it takes all of those below.
# Needs Rust with rustup and clippy, and a network for rustup where a target's standard library is missing. No linker and no C compiler
# for the target is needed, because no crate here builds C.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if (($# == 0)); then
    set -- aarch64-unknown-linux-gnu aarch64-apple-darwin x86_64-apple-darwin x86_64-pc-windows-gnu x86_64-pc-windows-msvc
fi

fail() {
    printf '\ntests/attacks/targets.sh: %s\n' "$*" >&2
    exit 1
}

sysroot=$(rustc --print sysroot)
options=()
for target in "$@"; do
    [[ -d $sysroot/lib/rustlib/$target ]] || rustup target add "$target" ||
        fail "the standard library for $target is missing, and rustup did not add it: 'rustup target add $target'"
    options+=(--target "$target")
done

# One call for all, so that what they share is compiled once; in release, as the other checks and the tests are.
from=$SECONDS
cargo clippy --release --locked --keep-going --workspace --all-targets "${options[@]}" -- -D warnings
printf 'no error and no warning, tests included, for %s: %d s\n' "$*" $((SECONDS - from))
