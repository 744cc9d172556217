#!/usr/bin/env bash
# Tests a wheel as its users get it: installed in a virtual environment of its own, away from the source, for the oldest Python
# that it is for and for the newest one here. The newest must run every test; others may skip what python/tests/requirements.txt
# does not install for them, and say so.
# Usage: python/test_wheel.sh WHEEL [PYTHON...]. Needs a network. Environments are kept in ~/.cache/spectral/python-VERSION (or
# under $SPECTRAL_VENVS) and made anew only when the requirements or that Python change; the newest takes about 6 GB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

oldest=3.10
venvs=${SPECTRAL_VENVS:-$HOME/.cache/spectral}
source_tree=$PWD
requirements=$PWD/python/tests/requirements.txt
begun=$SECONDS

fail() {
    printf '\npython/test_wheel.sh: %s\n' "$*" >&2
    exit 1
}

say() {
    printf '\n--- [%4d s] %s\n' $((SECONDS - begun)) "$*"
}

version_of() {
    "$1" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

# Every Python of the path and of pyenv that runs, one line each: its version and its file, the oldest first. (A name on the
# path need not be one that runs: pyenv puts a name there for each Python that it has.)
list_pythons() {
    local candidate version
    {
        compgen -c python3 | grep -xE 'python3(\.[0-9]+)?' || true
        printf '%s\n' "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3
    } | while read -r candidate; do
        version=$(version_of "$candidate") || continue
        printf '%s %s\n' "$version" "$candidate"
    done | sort -t ' ' -k 1,1V -u
}

# What tests may not do: write into the source, or take packages or models from elsewhere.
clean() {
    env -u PYTHONPATH -u PYTHONHOME -u LD_LIBRARY_PATH PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1 "$@"
}

install_venv() {
    local python=$1 venv=$2 wanted stamp=$2/requirements.sha256
    wanted=$({ cat "$requirements" && "$python" --version; } | sha256sum | cut -d ' ' -f 1)
    if [[ -x $venv/bin/python && -f $stamp && $(<"$stamp") == "$wanted" ]]; then
        echo "reusing $venv"
        return
    fi
    echo "making $venv"
    if [[ -e $venv && ! -f $venv/pyvenv.cfg && -n $(ls -A -- "$venv") ]]; then
        fail "$venv is not a virtual environment: empty it, or set SPECTRAL_VENVS to another folder"
    fi
    rm -rf -- "$venv"
    mkdir -p -- "$(dirname -- "$venv")"
    "$python" -m venv "$venv" || fail "$python cannot make a virtual environment: install its venv module"
    clean "$venv/bin/python" -m pip install --disable-pip-version-check --quiet --requirement "$requirements"
    printf '%s\n' "$wanted" >"$stamp"
}

# test_with PYTHON VERSION all|some
test_with() {
    local python=$1 version=$2 how_many=$3 venv=$venvs/python-$2
    say "Python $version ($("$python" --version))"
    install_venv "$python" "$venv"
    # A wheel of the same version is not installed over an older one unless pip is told to; what it needs is there or comes now.
    clean "$venv/bin/python" -m pip install --disable-pip-version-check --quiet --force-reinstall --no-deps "$wheel"
    clean "$venv/bin/python" -m pip install --disable-pip-version-check --quiet "$wheel"
    clean "$venv/bin/python" -m pip check
    clean "$venv/bin/python" -I -c "
import pathlib, spectral_rl
home = pathlib.Path(spectral_rl.__file__).resolve()
assert pathlib.Path('$venv').resolve() in home.parents, f'the tests would not test the wheel but {home}'"

    say "Python $version: tests"
    clean "$venv/bin/python" -m pytest -p no:cacheprovider -q -rs "$source_tree/python/tests" 2>&1 | tee "$scratch/log"
    if grep -E '^SKIPPED \[' "$scratch/log" | grep -v ': SKIPPED: '; then
        fail "tests were skipped for a reason that does not begin with 'SKIPPED:' (lines above)"
    fi
    if [[ $how_many == all ]] && grep -E '^SKIPPED \[' "$scratch/log"; then
        fail "tests were skipped with Python $version, which must run them all (lines above)"
    fi
    passed+=("Python $version: $(tail -n 1 "$scratch/log")")

    say "Python $version: examples in the documentation"
    clean "$venv/bin/python" -m pytest -p no:cacheprovider -q --doctest-modules --pyargs spectral_rl 2>&1 | tee "$scratch/log"
    passed+=("Python $version: $(tail -n 1 "$scratch/log") (examples in the documentation)")
}

(($# >= 1)) || fail "name the wheel: python/test_wheel.sh dist/spectral_rl-….whl"
[[ -f $1 ]] || fail "there is no file $1: python/build_wheels.sh makes a wheel"
wheel=$(realpath -- "$1")
shift
if (($# > 0)); then
    pythons=$(for python in "$@"; do printf '%s %s\n' "$(version_of "$python")" "$python"; done | sort -t ' ' -k 1,1V)
else
    pythons=$(list_pythons)
    grep -q "^$oldest " <<<"$pythons" || fail "there is no Python $oldest here, the oldest that the wheel is for: install it"
    pythons=$(grep "^$oldest " <<<"$pythons" && tail -n 1 <<<"$pythons")
    pythons=$(uniq <<<"$pythons")
fi

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
cd "$scratch"
passed=()
newest=$(tail -n 1 <<<"$pythons" | cut -d ' ' -f 1)
while read -r version python; do
    test_with "$python" "$version" "$([[ $version == "$newest" ]] && echo all || echo some)" </dev/null
done <<<"$pythons"

say "PASSED: $(basename -- "$wheel")"
printf '%s\n' "${passed[@]}"
