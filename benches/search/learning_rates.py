#!/usr/bin/env python3
"""Searches the demo's learning rates: the same grid, budget and seeds for every agent.

    python3 benches/search/learning_rates.py --spectral target/release/spectral --out /tmp/search

Trains every demo agent with every rate on tuning seeds (101 to 103, which no reported figure uses), reads the final scores
with `spectral report --json` and writes one row per (task, agent, rate) to benches/results/learning-rates.csv. The rate with
the highest mean final score is marked; crates/spectral-train/configs/experiments/demo-*.toml hold the marked ones. Finished runs are not repeated.
"""

import argparse
import csv
import json
import math
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
RATES = ["1e-4", "2e-4", "5e-4", "1e-3", "2e-3", "5e-3"]
SEEDS = "101..103"


def train_and_read(spectral, experiment, rate, out):
    """Final scores by agent of one run of the experiment in which every agent has this learning rate."""
    if not (out / "report" / "summary.json").exists():
        command = [spectral, "resume", str(out)] if (out / "run.toml").exists() else [
            spectral, "train", "--config", str(experiment), "--seeds", SEEDS, "--out", str(out),
        ]
        agents = ["spectral", "compressed", "popart", "clipped"]
        if command[1] == "train":
            command += [f"--set=agent.{agent}.learning_rate={rate}" for agent in agents]
        # Exit code 4: done, but an agent's values stopped being finite. That is a result too.
        if (code := subprocess.run(command).returncode) not in (0, 4):
            raise SystemExit(f"{' '.join(command)} ended with exit code {code}")
    text = subprocess.run([spectral, "report", str(out), "--json"], check=True, capture_output=True, text=True).stdout
    (task,) = json.loads(text)["tasks"]
    # A seed that was stopped counts as the worst there is: a mean over survivors must not win.
    return {row["agent"]: row["per_seed"] + [-math.inf] * (row["seeds"] - row["finished"]) for row in task["rows"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spectral", default="target/release/spectral", help="the command")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/search"), help="folder for the runs")
    options = parser.parse_args()
    rows = []
    for experiment in sorted((ROOT / "crates" / "spectral-train" / "configs" / "experiments").glob("demo-*.toml")):
        task = experiment.stem.removeprefix("demo-")
        scores = {}
        for rate in RATES:
            for agent, seeds in train_and_read(options.spectral, experiment, rate, options.out / task / rate).items():
                scores[agent, rate] = seeds
        for agent in sorted({agent for agent, _ in scores}):
            mean = {rate: sum(scores[agent, rate]) / len(scores[agent, rate]) for rate in RATES}
            best = max(RATES, key=mean.get)
            for rate in RATES:
                seeds = " ".join(f"{score:.2f}" for score in scores[agent, rate])
                rows.append([task, agent, rate, f"{mean[rate]:.2f}", seeds, "chosen" if rate == best else ""])
    target = ROOT / "benches" / "results" / "learning-rates.csv"
    with target.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["task", "agent", "learning_rate", "mean_final_score", "per_seed", "chosen"])
        writer.writerows(rows)
    print(target.read_text(), end="")


if __name__ == "__main__":
    main()
