#!/usr/bin/env bash
# Builds the wheels of the Python package into dist/ and checks them: manylinux_2_28, so for any Linux since 2018, and for
# every Python from 3.10 on.
# Usage: python/build_wheels.sh [x86_64|aarch64|all]. Without a word it builds the one for this machine.
# Needs Rust with rustup (which adds the target if it is missing), python3 with venv, and a network. Zig, which links against
# the old C library, comes as a Python package; tools are kept in ~/.cache/spectral/wheel-tools, or $SPECTRAL_WHEEL_TOOLS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=${SPECTRAL_WHEEL_TOOLS:-$HOME/.cache/spectral/wheel-tools}
requirements=python/requirements-build.txt

fail() {
    printf '\npython/build_wheels.sh: %s\n' "$*" >&2
    exit 1
}

install_tools() {
    local wanted stamp=$tools/requirements.sha256
    wanted=$({ cat "$requirements" && python3 --version; } | sha256sum | cut -d ' ' -f 1)
    if [[ -x $tools/bin/maturin && -f $stamp && $(<"$stamp") == "$wanted" ]]; then
        return
    fi
    if [[ -e $tools && ! -f $tools/pyvenv.cfg && -n $(ls -A -- "$tools") ]]; then
        fail "$tools is not a virtual environment: empty it, or set SPECTRAL_WHEEL_TOOLS to another folder"
    fi
    rm -rf -- "$tools"
    mkdir -p -- "$(dirname -- "$tools")"
    python3 -m venv "$tools" || fail "python3 cannot make a virtual environment: install its venv module"
    "$tools/bin/python" -m pip install --disable-pip-version-check --quiet --requirement "$requirements"
    printf '%s\n' "$wanted" >"$stamp"
}

build() {
    local machine=$1 target=$1-unknown-linux-gnu sysroot from=$SECONDS
    sysroot=$(rustc --print sysroot)
    if [[ ! -d $sysroot/lib/rustlib/$target ]]; then
        rustup target add "$target" || fail "the Rust target $target is missing: 'rustup target add $target'"
    fi
    rm -f -- dist/spectral_rl-*"_$machine.whl"
    # Messages name files by their place in the source; where that lay on this machine is nobody's business.
    RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$PWD=/spectral" \
        PATH=$tools/bin:$PATH maturin build --release --locked --zig --compatibility manylinux_2_28 --target "$target" \
        --interpreter "$tools/bin/python" --out dist
    "$tools/bin/python" python/check_wheel.py dist/spectral_rl-*"_$machine.whl" --platform "manylinux_2_28_$machine" \
        --absent "$PWD" "${CARGO_HOME:-$HOME/.cargo}"
    "$tools/bin/auditwheel" show dist/spectral_rl-*"_$machine.whl"
    printf 'built in %d s\n' $((SECONDS - from))
}

case ${1:-$(uname -m)} in
x86_64 | aarch64) machines=("${1:-$(uname -m)}") ;;
all) machines=(x86_64 aarch64) ;;
*) fail "'${1:-$(uname -m)}' is none of x86_64, aarch64 and all" ;;
esac
install_tools
for machine in "${machines[@]}"; do
    build "$machine"
done
