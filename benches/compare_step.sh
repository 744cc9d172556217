#!/bin/sh
# Times one training step (target forward, online forward, backward, Adam; batch 32) with spectral-nn and with PyTorch
# on the same shapes, by turns, and prints both and their ratio.
#
#   SPECTRAL_PYTHON=path/to/python benches/compare_step.sh [rounds]
#
# The Python needs torch. Medians and minima are over all rounds; PyTorch gets the better of its two memory layouts.
set -eu
cd "$(dirname "$0")/.."
python=${SPECTRAL_PYTHON:-python3}
rounds=${1:-5}
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

cargo build --release --quiet -p spectral-rl-nn --example step_bench
ours=${CARGO_TARGET_DIR:-target}/release/examples/step_bench
round=1
while [ "$round" -le "$rounds" ]; do
    for net in mlp small nature; do
        "$ours" --json --net "$net" --seconds 1.5 >"$results/ours.$net.$round.json"
        "$python" benches/peers/torch_step.py --net "$net" --seconds 1.5 >"$results/torch.$net.$round.json"
    done
    round=$((round + 1))
done
"$ours" --json --net none --gemm >"$results/gemm.ours.json"
"$python" benches/peers/torch_step.py --net none --gemm >"$results/gemm.torch.json"

"$python" - "$results" "$rounds" <<'PYTHON'
import json, pathlib, statistics, sys

folder, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2])
bars = {"mlp": 7.0, "small": 3.0, "nature": 1.0}
read = lambda name: json.loads((folder / name).read_text())
print(f"{'network':8} {'threads':>7} {'ours ms (min)':>20} {'PyTorch ms (min)':>20} {'ratio':>6} {'of minima':>9} {'bar':>4} {'ours GFLOP/s':>13}")
for net, bar in bars.items():
    ours, torch = ([read(f"{who}.{net}.{i}.json")["steps"][net] for i in range(1, rounds + 1)] for who in ("ours", "torch"))
    middle = lambda steps, key: statistics.median(step[key] for step in steps)
    least = lambda steps: min(step["min_ms"] for step in steps)
    a, b = middle(ours, "median_ms"), middle(torch, "median_ms")
    print(
        f"{net:8} {ours[0]['threads']:7} {a:11.4f} ({least(ours):.4f}) {b:11.4f} ({least(torch):.4f})"
        f" {b / a:6.2f} {least(torch) / least(ours):9.2f} {bar:4.0f} {middle(ours, 'gflops'):13.1f}"
    )
for who, name in (("ours", "spectral-nn"), ("torch", "PyTorch")):
    rates = read(f"gemm.{who}.json")["gemm_gflops"]
    print(f"2000 x 2000 matrix product, {name}: " + ", ".join(f"{r:.0f} GFLOP/s on {n} thread(s)" for n, r in rates.items()))
PYTHON
