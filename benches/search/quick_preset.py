#!/usr/bin/env python3
"""Searches the settings of the protocol quick-atari on plain Pong, where every reward is ±1: one choice for all agents.

    python3 benches/search/quick_preset.py --spectral target/release/spectral --out runs/quick-search

Trains `spectral` and `clipped` on atari/pong with every pair of learning rate and minibatch on tuning seeds (101 and 102,
which no reported figure uses), reads the final scores with `spectral report --json`, and writes one row per pair to
benches/results/quick-preset.csv. The pair with the highest mean of the two agents' mean scores is marked. The tasks that
the protocol is meant for take no part. Finished runs are not repeated; those that were interrupted go on.
"""

import argparse
import csv
import json
import math
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
RATES = ["5e-5", "1e-4", "2e-4"]
BATCHES = ["32", "64", "128"]
AGENTS = ["spectral", "clipped"]
SEEDS = "101..102"


def train_and_read(options, rate, batch):
    """Mean final score by agent of one run; a seed that was stopped counts as the worst there is."""
    out = options.out / f"{rate}-{batch}"
    if not (out / "report" / "summary.json").exists():
        command = [options.spectral, "resume", str(out)] if (out / "run.toml").exists() else [
            options.spectral, "train", "--task", "atari/pong", "--agents", ",".join(AGENTS), "--seeds", SEEDS,
            "--frames", str(options.frames), "--set", "protocol=quick-atari", "--set", f"learning_rate={rate}",
            "--set", f"batch={batch}", "--set", f"device={options.device}", "--out", str(out),
        ]
        # Exit code 4: done, but an agent's values stopped being finite. That is a result too.
        if (code := subprocess.run(command).returncode) not in (0, 4):
            raise SystemExit(f"{' '.join(command)} ended with exit code {code}")
    text = subprocess.run([options.spectral, "report", str(out), "--json"], check=True, capture_output=True, text=True).stdout
    (task,) = json.loads(text)["tasks"]
    return {r["agent"]: r["mean"] if r["finished"] == r["seeds"] else -math.inf for r in task["rows"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spectral", default="target/release/spectral", help="the command")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/quick-search"), help="folder for the runs")
    parser.add_argument("--frames", type=int, default=4_000_000, help="emulator frames per agent")
    parser.add_argument("--device", default="auto", help="where to train: auto, cpu, cuda or cuda:N")
    options = parser.parse_args()
    scores = {(rate, batch): train_and_read(options, rate, batch) for rate in RATES for batch in BATCHES}
    best = max(scores, key=lambda pair: sum(scores[pair].values()))
    target = ROOT / "benches" / "results" / "quick-preset.csv"
    with target.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["learning_rate", "batch", "frames", *AGENTS, "chosen"])
        for pair, means in scores.items():
            row = [f"{means[agent]:.2f}" for agent in AGENTS]
            writer.writerow([*pair, options.frames, *row, "chosen" if pair == best else ""])
    print(target.read_text(), end="")


if __name__ == "__main__":
    main()
