#!/usr/bin/env python3
"""Disturbs a job array on a cluster of slurm.sh at random moments, until it is done.

    torture.py DIR ARRAY_ID [--moments 20] [--seed 1] [--minutes 30] [--pause 2,8] [--only KIND,...] [--log FILE]

At each moment it chooses a running task, and does one of these things to it:

    preempt   a short job in the partition "urgent" takes the node; Slurm requeues the task
    requeue   an administrator's `scontrol requeue`
    node      the node loses power (kill -9 of slurmd, slurmstepd and the task), and comes back some seconds later
    kill      kill -9 of the task's program alone
    term      `scancel --signal=TERM --batch`, as Slurm's warning before a time limit
    twice     the same, and once more a moment later

Requeued tasks need not wait two minutes: it lets them start at once (slurm.sh hurry).
When all moments have passed it waits for the array's end. The last line is a summary: actions by kind, and minutes.

Exit code 0: every task ended as COMPLETED. 1: some did not, or the time was over; it says which. 2: wrong arguments.
Slurm does not requeue a task whose program was killed: it FAILED. Then this script calls `scontrol requeue`, as a user would, and the summary
counts it as "revived". A task that FAILED for any other reason stays so.
"""

import argparse
import collections
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

KINDS = ("preempt", "requeue", "node", "kill", "term", "twice")
NODES = ("n1", "n2")
# States from which a task does not come back by itself.
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "PREEMPTED")
SLURM_SH = pathlib.Path(__file__).resolve().parent / "slurm.sh"

Task = collections.namedtuple("Task", "state node job")


class Torture:
    def __init__(self, options):
        self.directory = pathlib.Path(options.directory).resolve()
        self.array = options.array
        self.environment = dict(os.environ, SLURM_CONF=str(self.directory / "slurm.conf"))
        self.random = random.Random(options.seed)
        self.begin = time.monotonic()
        self.deadline = self.begin + 60 * options.minutes
        self.log_file = open(options.log, "a", encoding="utf-8") if options.log else None
        self.actions = collections.Counter()
        self.dark = {}  # node without power -> when its power comes back
        self.seen = {}  # task -> its last known Task: Slurm forgets jobs some minutes after their end
        self.killed = set()  # tasks whose program was killed alone
        self.urgent = []  # short jobs that preempted

    def log(self, *words):
        line = f"{time.strftime('%H:%M:%S')} +{time.monotonic() - self.begin:6.1f} " + " ".join(map(str, words))
        print(line, flush=True)
        if self.log_file:
            print(line, file=self.log_file, flush=True)

    def run(self, *command, limit=60):
        """Output of a command, or None when it failed or took longer than `limit` seconds."""
        try:
            done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        return done.stdout if done.returncode == 0 else None

    def tasks(self):
        """What is known of each task: index -> Task."""
        text = self.run("squeue", "-h", "-r", "-t", "all", "-j", self.array, "-o", "%K %T %A %N")
        for line in (text or "").splitlines():
            words = line.split()
            # A job that is no array has N/A for its index.
            self.seen[words[0]] = Task(words[1], words[3] if len(words) > 3 else "", words[2])
        return self.seen

    def name(self, index):
        """The last task of an array has the array's own number for its job, so that only this form names one task."""
        return f"{self.array}_{index}" if index != "N/A" else self.array

    def tend(self):
        """What goes on between the moments: power comes back, requeued tasks may start, killed ones are revived."""
        for node, when in list(self.dark.items()):
            if time.monotonic() >= when:
                del self.dark[node]
                self.log("power back", node, "" if self.run(str(SLURM_SH), "start-node", str(self.directory), node) is not None else "FAILED")
        hurried = self.run(str(SLURM_SH), "hurry", str(self.directory))
        if hurried:
            self.log("hurry", *hurried.split())
        tasks = self.tasks()
        for index in sorted(self.killed):
            if tasks[index].state == "FAILED":
                if self.run("scontrol", "requeue", self.name(index)) is None:
                    continue  # Slurm is still busy with its end
                self.actions["revived"] += 1
                self.log("revive", self.name(index), "which FAILED")
                tasks[index] = tasks[index]._replace(state="PENDING")
                self.killed.discard(index)
            elif tasks[index].state in ENDED:
                self.killed.discard(index)  # it was at its end already
        return tasks

    def program(self, task):
        """Process of the task's batch script, or of the program that it became by exec; None when there is none."""
        for environ in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                variables = environ.read_bytes().split(b"\0")
                parent = int((environ.parent / "stat").read_text().rpartition(")")[2].split()[1])
                parent_name = pathlib.Path(f"/proc/{parent}/comm").read_text().strip()
            except (OSError, ValueError, IndexError):
                continue  # it has ended
            mine = f"SLURM_CONF={self.environment['SLURM_CONF']}".encode(), f"SLURM_JOB_ID={task.job}".encode()
            if all(variable in variables for variable in mine) and parent_name.startswith("slurmstepd"):
                return int(environ.parent.name)
        return None

    def act(self, kind, index, task):
        """Does it; returns whether it happened."""
        name = self.name(index)
        if kind == "preempt":
            job = self.run("sbatch", "--parsable", "-p", "urgent", "-w", task.node, "-t", "1", "-J", "preempts", "-o", "/dev/null", "--wrap", "sleep 2")
            if job is None:
                return False
            self.urgent.append(job.strip())
        elif kind == "requeue":
            return self.run("scontrol", "requeue", name) is not None
        elif kind == "node":
            if self.dark:
                return False  # one node at a time, so that something is left
            if self.run(str(SLURM_SH), "kill-node", str(self.directory), task.node) is None:
                return False
            # Sometimes before Slurm has noticed (about 20 seconds), sometimes after.
            self.dark[task.node] = time.monotonic() + self.random.uniform(1, 30)
        elif kind == "kill":
            process = self.program(task)
            if process is None:
                return False
            os.kill(process, signal.SIGKILL)
            self.killed.add(index)
        else:
            for count in range(2 if kind == "twice" else 1):
                if count:
                    time.sleep(self.random.choice((0, 0.01, 0.1, 0.5)))
                # When the task requeues itself meanwhile, Slurm refuses the signal, and scancel tries again for a minute.
                self.run("scancel", "--signal=TERM", "--batch", name, limit=2)
        return True

    def moment(self, kinds):
        """One disturbance of one running task; False when there was nothing to disturb."""
        running = [(index, task) for index, task in sorted(self.tend().items()) if task.state == "RUNNING" and task.node and task.node not in self.dark]
        if not running:
            return False
        index, task = self.random.choice(running)
        kind = self.random.choice([kind for kind in kinds if kind != "node" or not self.dark] or ["requeue"])
        if not self.act(kind, index, task):
            return False
        self.actions[kind] += 1
        self.log(f"moment {sum(self.actions[kind] for kind in KINDS)}:", kind, self.name(index), "on", task.node)
        return True

    def over(self, tasks):
        return bool(tasks) and not self.killed and all(task.state in ENDED for task in tasks.values())

    def torture(self, moments, kinds, pause):
        next_moment = time.monotonic() + self.random.uniform(*pause)
        while time.monotonic() < self.deadline:
            if self.over(self.tend()):
                break
            if time.monotonic() >= next_moment and sum(self.actions[kind] for kind in KINDS) < moments:
                if self.moment(kinds):
                    next_moment = time.monotonic() + self.random.uniform(*pause)
            time.sleep(0.5)
        for node in list(self.dark):
            self.dark[node] = 0
        tasks = self.tend()
        for job in self.urgent:
            self.run("scancel", job)
        bad = {index: task.state for index, task in tasks.items() if task.state != "COMPLETED"}
        done = sum(self.actions[kind] for kind in KINDS)
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.actions.items()))
        self.log(f"summary: {done} of {moments} moments ({kinds or 'nothing'}) in {(time.monotonic() - self.begin) / 60:.1f} minutes;",
                 f"{len(tasks) - len(bad)} of {len(tasks)} tasks completed")
        for index, state in sorted(bad.items()):
            self.log("NOT FINISHED:", self.name(index), state)
        if not tasks:
            self.log(f"Slurm knows no tasks of job {self.array}")
        return 0 if tasks and not bad else 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIR", help="folder of the cluster that slurm.sh started")
    parser.add_argument("array", metavar="ARRAY_ID", help="number of the job array, as sbatch --parsable prints it")
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30, help="gives up after so many minutes")
    parser.add_argument("--pause", default="2,8", help="seconds between moments: the least and the most")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds of disturbance to choose from")
    parser.add_argument("--log", help="file to which lines are appended too")
    options = parser.parse_args()
    options.only = options.only.split(",")
    try:
        options.pause = tuple(float(word) for word in options.pause.split(","))
        least, most = options.pause
        assert 0 <= least <= most
    except (ValueError, AssertionError):
        parser.error(f"--pause must be two numbers of seconds, the lesser first, not {options.pause!r}")
    unknown = [kind for kind in options.only if kind not in KINDS]
    if unknown:
        parser.error(f"unknown kinds {', '.join(unknown)}; there are {', '.join(KINDS)}")
    if not (pathlib.Path(options.directory) / "slurm.conf").is_file():
        parser.error(f"there is no cluster in {options.directory}; slurm.sh start begins one")
    return options


if __name__ == "__main__":
    options = arguments()
    sys.exit(Torture(options).torture(options.moments, options.only, options.pause))
