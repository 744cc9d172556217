#!/usr/bin/env bash
# Tries the wheel for 64-bit ARM on an x86-64 machine: an emulator runs Debian's Python for ARM, and that runs the package.
# Usage: python/smoke_aarch64.sh [WHEEL]. Without a name it takes the wheel in dist/, which python/build_wheels.sh makes.
# Needs a Debian or a relative of it with apt-get (not its root's rights: nothing is installed), python3 with pip, a network and
# 600 MB. Emulator, Python and NumPy are kept in ~/.cache/spectral/aarch64, or $SPECTRAL_AARCH64_DIR.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

place=${SPECTRAL_AARCH64_DIR:-$HOME/.cache/spectral/aarch64}
root=$place/root
begun=$SECONDS

fail() {
    printf '\npython/smoke_aarch64.sh: %s\n' "$*" >&2
    exit 1
}

say() {
    printf '\n=== [%4d s] %s\n' $((SECONDS - begun)) "$*"
}

find_wheel() {
    local found
    if (($# > 0)); then
        found=("$@")
    else
        found=(dist/spectral_rl-*aarch64*.whl)
    fi
    [[ ${#found[@]} == 1 && -f ${found[0]} ]] || fail "one wheel for aarch64 is wanted, not '${found[*]}': run python/build_wheels.sh aarch64, or name it"
    realpath -- "${found[0]}"
}

# An apt-get that knows of ARM and of no installed package, and keeps its own lists: so it fetches a package with all it needs.
apt_for_arm() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Install-Recommends=false \
        -o Dir::State="$place/apt" -o Dir::State::status="$place/apt/status" -o Dir::Cache="$place/apt/cache" \
        -o APT::Sandbox::User=root -o Debug::NoLocking=true "$@"
}

install_python() {
    local deb
    if [[ -f $place/ready ]]; then
        echo "reusing $place"
        return
    fi
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || fail "apt-get and dpkg are missing: this needs Debian or a relative"
    rm -rf -- "$place"
    mkdir -p -- "$root" "$place/apt/lists/partial" "$place/apt/cache/archives/partial" "$place/debs"
    : >"$place/apt/status"
    apt_for_arm update
    # What Python needs, and what NumPy's wheel expects of a system.
    apt_for_arm install --yes --download-only python3 libstdc++6
    # The emulator is one file for the machine that this runs on; its package needs no others.
    (cd "$place/debs" && apt-get -qq -o APT::Sandbox::User=root download qemu-user-static) ||
        fail "apt-get cannot download qemu-user-static: run 'apt-get update' as root and try again"
    for deb in "$place"/apt/cache/archives/*.deb; do
        dpkg -x "$deb" "$root"
    done
    mkdir -p -- "$place/emulator"
    dpkg -x "$place"/debs/qemu-user-static_*.deb "$place/emulator"
    mv -- "$place/emulator/usr/bin/qemu-aarch64-static" "$place/qemu"
    rm -rf -- "$place/emulator" "$place/debs" "$place/apt"
    touch "$place/ready"
}

# arm COMMAND...: runs a program of the ARM system.
arm() {
    "$place/qemu" -L "$root" "$@"
}

arm_python() {
    PYTHONHOME=$root/usr PYTHONPATH=$place/site PYTHONDONTWRITEBYTECODE=1 arm "$python" "$@"
}

install_wheel() {
    local version=$1 wheel=$2
    # Debian's Python looks like any other of its version to pip, which only has to be told what it installs for.
    python3 -m pip install --disable-pip-version-check --quiet --upgrade --target "$place/site" --only-binary=:all: \
        --python-version "$version" --implementation cp --abi "cp${version/./}" --abi abi3 --abi none \
        --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_17_aarch64 \
        --platform manylinux2014_aarch64 "$wheel[atari]" --root-user-action ignore
}

wheel=$(find_wheel "$@")
say "a Python for ARM"
install_python
python=$(find "$root/usr/bin" -name 'python3.*' -type f | sort -V | tail -n 1)
[[ -n $python ]] || fail "no Python came with the packages: remove $place and run again"
version=$(basename -- "$python" | sed 's/^python//')
arm "$python" -c 'import platform; print(platform.machine(), platform.python_version())'

say "the wheel $(basename -- "$wheel")"
install_wheel "$version" "$wheel"

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
cd "$scratch"

say "spectral --version, decompose, doctor"
arm_python "$place/site/bin/spectral" --version
arm_python "$place/site/bin/spectral" decompose 6.5 --max-frequency 3
arm_python "$place/site/bin/spectral" doctor

say "the package"
arm_python - <<'PYTHON'
import platform
import time

import numpy as np
import spectral_rl

assert platform.machine() == "aarch64"
np.testing.assert_array_equal(spectral_rl.decompose(6.5, max_frequency=3), [1, 1, 0.875, 0])
print("decompose", spectral_rl.decompose(6.5, max_frequency=3), spectral_rl.__version__)
for task in ("CartPole-v1", "Spectral/CatchScale-v0"):
    begun = time.perf_counter()
    agent = spectral_rl.SpectralDQN(task, seed=1, hidden="32", learning_starts=100)
    agent.learn(500)
    score = agent.evaluate(2).mean()
    assert agent.num_timesteps == 500 and np.isfinite(score)
    print(f"{task}: 500 steps and two episodes in {time.perf_counter() - begun:.1f} s, mean score {score:.1f}")
PYTHON

say "spectral train"
arm_python "$place/site/bin/spectral" train --task exponential-pong-mini --agents spectral,clipped --frames 2000 --out run
test -f run/run.toml || fail "the run left no run.toml: $(ls run)"

# Cartridges are translated to the machine's own instructions while they play. Its ROMs come with ale-py.
say "spectral play, an Atari game"
SPECTRAL_ROMS=$scratch/none arm_python "$place/site/bin/spectral" play --task atari/pong --steps 300 --out pong.gif
test -s pong.gif || fail "the Atari left no film"

say "PASSED"
