#!/usr/bin/env python3
"""A stand-in for a training run, with which torture.py and the cluster itself are tested.

    counter.py FOLDER GOAL

It counts to GOAL, ten a second, and appends every number to FOLDER/TASK.log; a checkpoint is FOLDER/TASK.checkpoint, renamed into place,
written every 20 numbers and on SIGTERM. After SIGTERM it asks Slurm for a requeue if Slurm still counts the task as running.
After an end without warning it begins at the last checkpoint: at most 20 numbers are counted again.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

folder, goal = pathlib.Path(sys.argv[1]), int(sys.argv[2])
index = os.environ["SLURM_ARRAY_TASK_ID"]
# Not SLURM_JOB_ID: the last task of an array has the whole array's number.
task = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{index}"
checkpoint = folder / f"{index}.checkpoint"
terminated = []
signal.signal(signal.SIGTERM, lambda *_: terminated.append(1))


def save(count):
    part = folder / f"{index}.{os.environ['SLURMD_NODENAME']}.part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(str(count))
        file.flush()
        os.fsync(file.fileno())
    part.rename(checkpoint)


count = int(checkpoint.read_text()) if checkpoint.exists() else 0
with open(folder / f"{index}.log", "a", encoding="utf-8") as log:
    print(f"begin at {count}, restart {os.environ.get('SLURM_RESTART_COUNT', 0)}, on {os.environ['SLURMD_NODENAME']}", file=log, flush=True)
    while count < goal and not terminated:
        time.sleep(0.1)
        count += 1
        print(count, file=log, flush=True)
        if count % 20 == 0:
            save(count)
    save(count)
    if count < goal:
        state = subprocess.run(["squeue", "-h", "-j", task, "-o", "%T"], capture_output=True, text=True).stdout.strip()
        print(f"terminated at {count}, state {state}", file=log, flush=True)
        if state in ("RUNNING", "SIGNALING"):
            subprocess.run(["scontrol", "requeue", task], check=True)
        sys.exit(1)
