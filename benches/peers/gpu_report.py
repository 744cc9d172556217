"""Options, time limit, table and JSON lines of the GPU peers."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np


def arguments(description):
    """The options that both peers take."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget-seconds", type=float, default=90.0, help="stop in this time, whatever is left undone")
    parser.add_argument("--populations", default="20,1,5,64", help="numbers of agents, the most wanted first")
    parser.add_argument("--precisions", default="tf32,bf16", help="of fp32, tf32, bf16")
    parser.add_argument("--variants", default="", help="only these, as they are named in the table")
    parser.add_argument("--capacity", type=int, default=50_000, help="frames in each agent's replay")
    parser.add_argument("--quick", action="store_true", help="short repetitions, small replay")
    parser.add_argument("--selftest", action="store_true", help="check the update against float64 instead")
    parser.add_argument("--save", help="with --selftest: write the updated state to this file")
    parser.add_argument("--against", help="with --selftest: compare with the state that the other peer saved")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.populations = [int(p) for p in args.populations.split(",")]
    args.precisions = args.precisions.split(",")
    args.variants = [v for v in args.variants.split(",") if v]
    if args.quick:
        args.capacity = min(args.capacity, 2_000)
    return args


def supervise(script, budget_seconds, title):
    """Runs the script again as a worker, passes its lines on, stops it when time is up, and prints the table."""
    command = [sys.executable, script, *sys.argv[1:], "--worker"]
    started = time.monotonic()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    ran_out = threading.Event()

    def stop():
        ran_out.set()
        os.killpg(worker.pid, signal.SIGKILL)

    timer = threading.Timer(budget_seconds, stop)
    timer.start()
    rows = []
    for line in worker.stdout:
        print(line, end="", flush=True)
        if line.startswith("{"):
            rows.append(json.loads(line))
    code = worker.wait()
    timer.cancel()
    if ran_out.is_set():
        print(f"# {title}: stopped after {budget_seconds:.0f} s; what is not in the table was not measured")
    elif code != 0:
        print(f"# {title}: the worker ended with code {code}")
    print_table(rows, f"{title}, {time.monotonic() - started:.0f} s")
    return 0 if rows else 1


def print_table(rows, title):
    """Median (minimum) milliseconds, one row per variant, one column per population."""
    populations = sorted({row["P"] for row in rows})
    print(f"# {title}: median (minimum) ms")
    print("# " + f"{'what':7} {'variant':22} {'precision':9}" + "".join(f"{'P = ' + str(p):>20}" for p in populations))
    for key in sorted({(row["what"], row["variant"], row["precision"]) for row in rows}, reverse=True):
        cells = {}
        for row in rows:
            if (row["what"], row["variant"], row["precision"]) == key:
                cells[row["P"]] = f"{row['ms_median']:.4f} ({row['ms_min']:.4f})"
        print("# " + f"{key[0]:7} {key[1]:22} {key[2]:9}" + "".join(f"{cells.get(p, '-'):>20}" for p in populations))


def emit(stack, variant, precision, agents, what, times, versions):
    """One measurement as a JSON line; times in milliseconds, one for each repetition."""
    row = {"stack": stack, "variant": variant, "precision": precision, "P": agents, "what": what}
    row |= {"ms_median": float(np.median(times)), "ms_min": float(np.min(times)), "versions": versions}
    print(json.dumps(row), flush=True)


def skipped(variant, precision, agents, what, reason):
    """Says why there is no figure."""
    text = " ".join(str(reason).split())[:300]
    print(f"# no figure for {what} {variant} {precision} P = {agents}: {text}", flush=True)
