"""Trains the jobs of the plan in this file's folder as tasks of a Ray cluster, and writes the report at the end.

    python ray_driver.py                  # on a machine of the cluster
    ray job submit -- python .../ray_driver.py

It may be stopped by Ctrl-C or SIGTERM: its jobs save first. It may be started again at any time: a job that is finished ends
at once, any other goes on from its last checkpoint. The folder, the program and the run directories must have the same paths on all nodes.
"""

import collections
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import ray

PROGRAM = "{{program}}"
JOBS = "{{jobs}}"
CPUS = "{{cpus}}"
GPUS = "{{gpus}}"
MEMORY = "{{memory}}"
# What jobs find in their environment, on whichever node.
ENVIRONMENT = "{{environment}}"

PLAN = pathlib.Path(__file__).resolve().parent
# Exit codes of `spectral job run`: what will not come right by itself is not tried again.
DONE, WRONG, GAVE_UP = 0, 2, 7
# And of one that was asked to stop and has saved; this driver's, too.
INTERRUPTED = 130
# An attempt that ended sooner has not trained: its node may not have the plan's folder, for example. The next one waits for longer
# and longer, because such a node is free again at once and would be given one attempt after the other.
QUICK = 60.0
LONGEST_PAUSE = 60.0
# A job counts its fruitless attempts itself; this only bounds what happens around it. Attempts that lasted do not count: a cluster
# may stop a job as often as it likes.
MOST_QUICK = 100
# How often the driver and its tasks look whether they are asked to stop.
LOOK = 0.5


def dying_with(parent):
    """A function for the child: the kernel is to end the program when the worker that started it dies. It then saves and lets go of its run."""
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    PR_SET_PDEATHSIG = 1

    def ask():
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return ask


@ray.remote(num_cpus=CPUS, num_gpus=GPUS, memory=MEMORY, max_retries=0)
def run(index, attempt):
    """One attempt at a job; returns its exit code."""
    task = f"{index} on {ray.get_runtime_context().get_node_id()[:8]}"
    environment = {**os.environ, **ENVIRONMENT, "SPECTRAL_RAY_TASK": task}
    command = [*PROGRAM, "job", "run", str(PLAN), str(index)]
    with open(PLAN / "logs" / f"{index}.log", "ab") as log:
        print(f"attempt {attempt}: {' '.join(command)}", file=open(log.fileno(), "w", closefd=False), flush=True)
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, preexec_fn=dying_with(os.getpid())
        )
    # On a thread of its own, because Ray's wish to stop is heard between two steps of Python only.
    # Not by joining that thread: before Python 3.13, a thread counts as ended when its join is interrupted.
    ended = threading.Event()
    threading.Thread(target=lambda: (child.wait(), ended.set()), daemon=True).start()
    while not ended.is_set():
        try:
            ended.wait(LOOK)
        except KeyboardInterrupt:
            # The driver is stopped. The program saves, however long that takes: Ray would kill it with this worker.
            child.terminate()
    return child.returncode


def connect():
    """To the cluster that RAY_ADDRESS names, or that of this machine. Says so if it has no room for a job: Ray would wait without a word."""
    address = os.environ.get("RAY_ADDRESS", "auto")
    try:
        ray.init(address=address, log_to_driver=False)
    except ConnectionError:
        sys.exit(
            f"there is no Ray cluster at '{address}': start one (ray start --head), or name one by RAY_ADDRESS; then start this again: "
            f"python3 {__file__}"
        )
    needs = {"CPU": CPUS, "GPU": GPUS, "memory": MEMORY}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(all(node.get(what, 0) >= much for what, much in needs.items()) for node in nodes):
        words = [f"{CPUS} cores", f"{MEMORY / 1e9:.1f} GB of memory"] + (["a GPU"] if GPUS else [])
        print(f"no node of this cluster has {', '.join(words)}, as each job needs: they wait until there is one", flush=True)


def pause_after(quick):
    """Seconds until a job is tried again after so many quick ends in a row."""
    return min(LONGEST_PAUSE, 2.0 ** min(quick, 30)) if quick else 0.0


class Wish:
    """Whether somebody wants the driver to stop. Its jobs are to save first; only a second Ctrl-C ends it at once."""

    def __init__(self):
        self.is_there, self._at = False, 0.0

    def listen(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    def _hear(self, number, frame):
        if not self.is_there:
            self.is_there, self._at = True, time.monotonic()
        elif number == signal.SIGINT and time.monotonic() > self._at + 1.0:
            # One wish may come as several signals.
            os._exit(INTERRUPTED)


def stop(tasks):
    """Has every task under way save and end, and ends the driver."""
    for task in tasks:
        ray.cancel(task, force=False)
    if tasks:
        print("stopping: jobs save (Ctrl-C again ends at once)", flush=True)
    left = list(tasks)
    while left:
        _, left = ray.wait(left, num_returns=len(left), timeout=LOOK)
    print(f"stopped: `python3 {__file__}` goes on from the last checkpoints", flush=True)
    ray.shutdown()
    sys.exit(INTERRUPTED)


def main():
    # Whoever copied the plan may have left an empty folder behind.
    (PLAN / "logs").mkdir(exist_ok=True)
    connect()
    # After Ray's own handlers.
    wish = Wish()
    wish.listen()
    attempts, quick = collections.Counter(), collections.Counter()
    under_way, waiting, submitted = {}, {}, {}

    def start(index):
        attempts[index] += 1
        submitted[index] = time.monotonic()
        under_way[run.remote(index, attempts[index])] = index

    for index in range(JOBS):
        start(index)
    failed = []
    while under_way or waiting:
        if wish.is_there:
            stop(under_way)
        for index in [index for index, due in waiting.items() if due <= time.monotonic()]:
            del waiting[index]
            start(index)
        left = min([LOOK, *(max(0.0, due - time.monotonic()) for due in waiting.values())])
        if not under_way:
            time.sleep(left)
            continue
        ended, _ = ray.wait(list(under_way), num_returns=1, timeout=left)
        if not ended:
            continue
        (ended,) = ended
        index = under_way.pop(ended)
        # Time in Ray's queue counts as well: then there was a pause.
        lasted = time.monotonic() - submitted[index]
        quick[index] = quick[index] + 1 if lasted < QUICK else 0
        try:
            code = ray.get(ended)
            how = f"exit code {code}"
        except ray.exceptions.RayError as error:
            # Its node or its worker died, or the node has no such folder: the run goes on elsewhere.
            code, how = None, type(error).__name__
        if code == DONE:
            print(f"job {index}: done ({JOBS - len(under_way) - len(waiting) - len(failed)} of {JOBS})", flush=True)
        elif code in (WRONG, GAVE_UP) or quick[index] >= MOST_QUICK:
            failed.append(index)
            print(f"job {index}: {how}, not tried again; {PLAN}/logs/{index}.log says why", flush=True)
        else:
            pause = pause_after(quick[index])
            print(f"job {index}: {how}, tried again" + (f" in {pause:.0f} s" if pause else ""), flush=True)
            waiting[index] = time.monotonic() + pause
    code = subprocess.run([*PROGRAM, "job", "report", str(PLAN)]).returncode
    words = [f"not finished: {', '.join(map(str, failed))}"] if failed else []
    words += [f"the report was not written (exit code {code})"] if code else []
    if words:
        sys.exit("; ".join(words))


if __name__ == "__main__":
    main()
