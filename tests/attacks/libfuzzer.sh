#!/usr/bin/env bash
# Attacks the targets of crates/spectral-attacks with libFuzzer, which keeps changed inputs that reach new code and changes them further.
# AddressSanitizer watches memory, and Rust's own assertions and tests of overflow are compiled in.
#
#   tests/attacks/libfuzzer.sh [--seconds N] [--timeout N] [--log LOG] [TARGET...]
#
# Every target, or those that are named, runs for N seconds (180) from fuzz/corpus and from what earlier calls found, which is kept in
# target/libfuzzer/corpus. An input that is not survived is left in fuzz/artifacts: a panic, an error in memory, 256 MiB in one
# allocation, more than 2 GiB in all, or more than 10 seconds (--timeout; they are by the clock, so a busy machine needs more).
#
# Needs a nightly toolchain (`rustup toolchain install nightly`), a C++ compiler for libFuzzer itself, a network for what cargo has not
# downloaded yet, and about 3 GB of disk. JOBS is how much is compiled at once (2).
set -euo pipefail

# As a wrapper of rustc, which cargo calls with the compiler's command: coverage is measured in all crates but the code generator, whose
# code says nothing about Spectral's, and those that run while others are compiled, which have no `--target`.
coverage=(sanitizer-coverage-level=4 sanitizer-coverage-inline-8bit-counters sanitizer-coverage-pc-table
    sanitizer-coverage-trace-compares simplifycfg-branch-fold-threshold=0)
if [[ ${1:-} == */rustc || ${1:-} == rustc ]]; then
    case " $* " in
    *" --crate-name cranelift"* | *" --crate-name regalloc2 "* | *" --crate-name libfuzzer_sys "*) exec "$@" ;;
    *" --target "*) exec "$@" -Cpasses=sancov-module "${coverage[@]/#/-Cllvm-args=-}" ;;
    *) exec "$@" ;;
    esac
fi

fail() {
    printf '\ntests/attacks/libfuzzer.sh: %s\n' "$*" >&2
    exit 1
}

self=$(realpath "${BASH_SOURCE[0]}")
cd "$(dirname "$self")/../.."
seconds=180 timeout=10 log=/dev/null targets=()
while (($# > 0)); do
    case $1 in
    --seconds) seconds=${2:?} && shift 2 ;;
    --timeout) timeout=${2:?} && shift 2 ;;
    --log) log=${2:?} && shift 2 ;;
    -*) sed -n '2,/^set/{s/^# \{0,1\}//p}' "$self" && exit 2 ;;
    *) targets+=("$1") && shift ;;
    esac
done
((${#targets[@]} > 0)) || mapfile -t targets < <(basename -a fuzz/corpus/*)
for target in "${targets[@]}"; do
    [[ -f fuzz/fuzz_targets/$target.rs ]] || fail "no target is called '$target'; there are $(basename -a fuzz/corpus/* | xargs)"
done
rustc +nightly --version >/dev/null 2>&1 || fail "there is no nightly toolchain: 'rustup toolchain install nightly'"
command -v c++ >/dev/null || fail "libFuzzer is C++, and there is no compiler 'c++': install g++ or clang"

host=$(rustc +nightly -vV | sed -n 's/^host: //p')
folder=$PWD/target/libfuzzer
CARGO_TARGET_DIR=$folder RUSTC_WRAPPER=$self RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes --cfg fuzzing" \
    cargo +nightly build --release --manifest-path fuzz/Cargo.toml --target "$host" --jobs "${JOBS:-2}" "${targets[@]/#/--bin=}" ||
    fail "the targets could not be built"

# Runs a target, and says in a line how often, and what libFuzzer said at the beginning and at the end: places in the code that were
# reached (cov), ways in which they were reached (ft), and the execution that last reached a new one.
run() {
    local target=$1 out=$folder/log/$1 status=0 process
    mkdir -p "$folder/log" "$folder/corpus/$target" fuzz/artifacts
    # Leaks are not looked for: what is made once for a thread is kept until the process ends. No single allocation may exceed the
    # limit of crates/spectral-attacks. Few targets are so fast that inputs would get longer at libFuzzer's usual pace.
    ASAN_OPTIONS=detect_leaks=0 "$folder/$host/release/$target" -max_total_time="$seconds" \
        -rss_limit_mb=2048 -malloc_limit_mb=256 -timeout="$timeout" -len_control=10 -print_final_stats=1 \
        -artifact_prefix="fuzz/artifacts/$target-" "$folder/corpus/$target" "fuzz/corpus/$target" >"$out" 2>&1 &
    process=$!
    wait "$process" || status=$?
    # What an aborted process could not remove.
    rm -rf -- /dev/shm/spectral-attack-"$process"-*
    awk -v target="$target" -v status="$status" '
        function after(key) { for (i = 1; i < NF; i++) if ($i == key) return $(i + 1); return "-" }
        $2 == "INITED" { cov = after("cov:"); ft = after("ft:") }
        /^#[0-9]+/ && / cov: / { cov_end = after("cov:"); ft_end = after("ft:"); if ($2 == "NEW") last = substr($1, 2) }
        /^stat::number_of_executed_units/ { executions = $2 }
        /^stat::peak_rss_mb/ { memory = $2 }
        /^stat::slowest_unit_time_sec/ { slowest = $2 }
        /^Done / { time = $5 }
        END { printf "%-12s%12s%8s%9s -> %6s%9s -> %6s%12s%9s%9s   %s\n", target, executions, time, cov, cov_end, ft, ft_end,
              last, slowest, memory, status == 0 ? "nothing" : "status " status }' "$out"
    ((status == 0)) || { grep -a -A1 -E 'panicked at|ERROR:|SUMMARY:|Test unit written' "$out" || tail "$out"; return 1; }
}

all() {
    local found=0
    printf '# %s; %s; tests/attacks/libfuzzer.sh --seconds %s --timeout %s\n' "$(rustc +nightly --version)" \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$seconds" "$timeout"
    printf '%-12s%12s%8s%19s%19s%12s%9s%9s   %s\n' target executions seconds 'code reached' features 'last new' 'slowest' 'peak MB' found
    for target in "${targets[@]}"; do
        run "$target" || found=1
    done
    return "$found"
}

all | tee "$log" ||
    fail "run an input again with target/libfuzzer/$host/release/TARGET FILE; inputs are in fuzz/artifacts, all messages in target/libfuzzer/log"
