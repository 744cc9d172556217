#!/usr/bin/env python3
"""Disturbs runs in every way for an hour, and compares what becomes of them, bit for bit, with runs that were left alone.

    soak.py SPECTRAL [--minutes 60] [--seed 1] [--folder DIR] [--log FILE] [--strict] [--only KIND,...]

SPECTRAL is the command, such as target/release/spectral. In each round a small run is begun, disturbed until it has come to its end,
and compared. There are these kinds of rounds:

    kill      kill -9 at random moments, from before the first file to after the last
    signal    SIGINT and SIGTERM, once, twice within milliseconds, or to the whole group; each must leave a checkpoint
    fault     one operation on a file fails (EIO, ENOSPC once or from then on), is cut short, or is the last one of the process
    damage    a file of a run directory is changed, cut, removed, or replaced by something else. `spectral resume`, `report` and `eval`
              may refuse it, or end as if nothing had happened

A round fails if something hangs or panics, if a run's result is another, or if a run that nobody damaged cannot go on. Changed tables
and descriptions that are accepted and change a result are counted, and fail only with --strict.

A folder of a round that failed is kept. Exit code 0: no round failed. 1: some did. 2: wrong arguments.
Needs Linux and a C compiler (for the kind `fault`), and nothing but Python.
"""

import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

KINDS = ("kill", "signal", "fault", "damage")
SMALL = ("hidden=16", "batch=8", "replay=1500", "learning_starts=200", "target_period=300", "epsilon_frames=2000", "log_frames=500")
RICH = 'codec = "compressed"\nprioritised = true\ndouble = true\ndueling = true\n'
# Each with something of its own in its state: statistics, priorities, recipes, masks, means of weights, evaluations.
RUNS = (
    ("exponential-pong-mini", "spectral,popart,rich.toml", "cpu", "average=9000"),
    ("exponential-pong-mini", "spectral,rich.toml", "cpu", "checkpoint=compact"),
    ("exponential-pong-mini", "spectral,categorical", "cpu-lockstep", "eval_every=5000,eval_games=3"),
    ("ponglantis-mini", "steady,clipped", "cpu", "eval_every=4000,eval_games=2"),
    ("2048", "spectral,popart", "cpu", "checkpoint=full"),
    ("2048", "steady,rich.toml", "cpu-lockstep", "checkpoint=compact"),
)
FRAMES = (12_000, 40_000, 120_000)
HERE = pathlib.Path(__file__).resolve().parent
# Longer than any of these runs needs, on a machine with other work to do.
HANG = 300


class Failed(Exception):
    pass


class Soak:
    def __init__(self, options, folder):
        self.command = str(pathlib.Path(options.command).resolve())
        self.strict = options.strict
        self.folder = folder
        self.random = random.Random(options.seed)
        self.counts = collections.Counter()
        self.begun = time.monotonic()
        self.log_file = open(options.log, "a", encoding="utf-8") if options.log else None
        self.wholes = {}  # arguments of a run -> its results when it is left alone, and how long it took
        self.shim = None
        (folder / "rich.toml").write_text(RICH)

    def log(self, *words):
        line = f"+{time.monotonic() - self.begun:7.1f} s  " + " ".join(map(str, words))
        print(line, flush=True)
        if self.log_file:
            print(line, file=self.log_file, flush=True)

    # Commands

    def start(self, words, environment=None):
        return subprocess.Popen([self.command, *words], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)

    def end(self, child, what):
        """Its exit code and what it said."""
        try:
            said = child.communicate(timeout=HANG)[1].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise Failed(f"{what} hangs") from None
        if "panicked at" in said:
            raise Failed(f"{what} panics: {said}")
        return child.returncode, said

    def run(self, *words):
        return self.end(self.start(words), words[0])

    # Runs

    def choose(self):
        task, agents, device, more = self.random.choice(RUNS)
        words = ["train", "--task", task, "--agents", agents, "--frames", str(self.random.choice(FRAMES)), "--device", device]
        # Those that must not matter for the result.
        free = (f"checkpoint_seconds={self.random.choice((0.01, 0.05, 0.3))}", f"threads={self.random.choice((1, 2))}")
        as_words = lambda settings: [word for setting in settings for word in ("--set", setting)]
        return words + as_words((*SMALL, *more.split(","))), as_words(free)

    def whole(self, words):
        """What the run becomes when nobody disturbs it, and how long that takes. How a CPU trains it must not matter."""
        key = tuple("cpu" if word == "cpu-lockstep" else word for word in words)
        if key not in self.wholes:
            begin = time.monotonic()
            code, said = self.run(*key, "--out", "whole")
            if code != 0:
                raise Failed(f"a run that is left alone ends with {code}: {said}")
            self.wholes[key] = (results(self.folder / "whole"), time.monotonic() - begin)
            shutil.rmtree(self.folder / "whole")
        return self.wholes[key]

    def go_on(self, words):
        """The command that a user would give next."""
        if (self.folder / "run" / "run.toml").exists():
            return ["resume", "run"]
        return [*words, "--out", "run"]

    def compare(self, expected, what):
        found = results(self.folder / "run")
        if found.keys() != expected.keys():
            raise Failed(f"{what}: files are {sorted(found)}, not {sorted(expected)}")
        different = [name for name, content in expected.items() if found[name] != content]
        if different:
            raise Failed(f"{what}: {', '.join(different)} differ")

    def finish(self, words, expected, what):
        code, said = self.run(*self.go_on(words))
        if code != 0:
            raise Failed(f"{what}: the run cannot go on ({code}): {said}")
        self.compare(expected, what)

    # Rounds

    def kill(self, words, free):
        expected, seconds = self.whole(words)
        wanted, killed = self.random.randint(3, 12), 0
        # Ends by itself sooner or later: the longest moment is that of a whole run.
        longest = max(0.06, seconds / 3)
        while killed < wanted:
            child = self.start(self.go_on([*words, *free]))
            time.sleep(self.random.choice((0.02, longest / 4, longest)) * self.random.random())
            child.send_signal(signal.SIGKILL)
            code, said = self.end(child, "a run that was killed")
            if code == 0:
                break
            if code != -signal.SIGKILL:
                raise Failed(f"after {killed} kills the run cannot go on ({code}): {said}")
            killed += 1
        self.counts["kills"] += killed
        self.finish(words, expected, f"after {killed} kills")

    def signal(self, words, free):
        expected, seconds = self.whole(words)
        for _ in range(self.random.randint(2, 6)):
            child = self.start(self.go_on([*words, *free]))
            wait_until(lambda: child.poll() is not None or progress(self.folder / "run"))
            time.sleep(self.random.random() * max(0.05, seconds / 4))
            first, second = (self.random.choice((signal.SIGINT, signal.SIGTERM)) for _ in range(2))
            how = self.random.choice(("once", "twice", "group"))
            try:
                os.kill(child.pid, first)
                if how == "twice":
                    time.sleep(self.random.choice((0, 0.001, 0.01, 0.1)))
                    os.kill(child.pid, second)
                elif how == "group":
                    os.killpg(child.pid, second)
            except ProcessLookupError:
                pass
            code, said = self.end(child, f"a run that got {first.name} {how}")
            if code == 0:
                break
            # A signal before the command is ready for it ends it as signals do; later, it saves.
            if code == 130:
                self.counts["saves after signals"] += 1
                if not any((self.folder / "run" / "checkpoints").glob("*.checkpoint")):
                    raise Failed(f"{first.name} {how} left no checkpoint: {said}")
            elif code not in (-first, -second):
                raise Failed(f"{first.name} {how} ends with {code}: {said}")
            self.counts["signals"] += 1
        self.finish(words, expected, "after signals")

    def fault(self, words, free):
        if self.shim is None:
            self.shim = self.folder / "faults.so"
            compiler = os.environ.get("CC", "cc")
            subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", self.shim, HERE / "faults.c", "-ldl"], check=True)
        expected, _ = self.whole(words)
        for _ in range(self.random.randint(2, 5)):
            kind = self.random.choice(("eio", "enospc", "lasting", "short", "kill"))
            number = int(10 ** self.random.uniform(0, 3.3))
            # Paths count as the command is given them.
            run = str(self.folder / "run")
            environment = dict(os.environ, LD_PRELOAD=str(self.shim), FAULTS_ROOT=run, FAULTS_AT=str(number), FAULTS_KIND=kind)
            command = [run if word == "run" else word for word in self.go_on([*words, *free])]
            code, said = self.end(self.start(command, environment), f"{kind} at operation {number}")
            if code not in (0, 2, 3, -signal.SIGKILL):
                raise Failed(f"{kind} at operation {number} ends with {code}: {said}")
            self.counts["faults"] += 1
            if code == 0:
                break
        self.finish(words, expected, f"after faults, the last {kind} at operation {number}")

    def damage(self, words, free):
        expected, seconds = self.whole(words)
        child = self.start(self.go_on([*words, *free]))
        wait_until(lambda: child.poll() is not None or progress(self.folder / "run"))
        time.sleep(self.random.random() * seconds / 2)
        child.kill()
        self.end(child, "a run that was killed")
        run, kept = self.folder / "run", self.folder / "kept"
        if not (run / "run.toml").exists():
            return
        shutil.copytree(run, kept, symlinks=True)
        for _ in range(self.random.randint(2, 8)):
            files = sorted(path for path in run.rglob("*") if path.is_file() and not path.name.startswith("."))
            path = self.random.choice(files)
            what = f"{damage(self.random, path)} {path.relative_to(run)}"
            self.counts["damages"] += 1
            code, said = self.run("resume", "run")
            for words_after in (["report", "run", "--out", "report"], ["eval", "run", "--episodes", "1"]):
                after, why = self.run(*words_after)
                if after not in (0, 2, 3, 4):
                    raise Failed(f"{what}: {words_after[0]} ends with {after}: {why}")
            if code == 0:
                try:
                    self.compare(expected, what)
                except Failed:
                    if path.suffix in (".checkpoint", ".segment") or self.strict:
                        raise
                    self.counts["damages of texts that changed a result"] += 1
                    self.log("accepted:", what)
            elif code not in (2, 3, 4):
                raise Failed(f"{what}: resume ends with {code}: {said}")
            else:
                self.counts["damages refused"] += 1
            shutil.rmtree(run)
            shutil.copytree(kept, run, symlinks=True)
        shutil.rmtree(kept)
        self.finish(words, expected, "after damages were undone")

    def soak(self, minutes, kinds):
        failed = 0
        while time.monotonic() < self.begun + 60 * minutes:
            kind = self.random.choice(kinds)
            words, free = self.choose()
            try:
                getattr(self, kind)(words, free)
            except Failed as error:
                failed += 1
                kept = self.folder.with_name(f"{self.folder.name}-failed-{failed}")
                shutil.copytree(self.folder, kept, symlinks=True)
                self.log(f"FAILED ({kind}, kept in {kept}): {error}\n  {' '.join(words)}")
            self.counts[f"rounds of {kind}"] += 1
            for name in ("run", "kept", "report", "whole"):
                shutil.rmtree(self.folder / name, ignore_errors=True)
            if sum(self.counts[f"rounds of {kind}"] for kind in KINDS) % 20 == 0:
                self.log(self.summary(failed))
        self.log("summary:", self.summary(failed))
        return 1 if failed else 0

    def summary(self, failed):
        return ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items())) + f"; rounds that failed: {failed}"


def results(run):
    """What must not depend on how a run came to its end: weights and tables of every agent."""
    files = (path for path in (run / "agents").rglob("*") if path.suffix in (".csv", ".safetensors"))
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def progress(run):
    return any((run / "agents").glob("*/metrics.csv"))


def wait_until(so):
    limit = time.monotonic() + HANG
    while not so():
        if time.monotonic() > limit:
            raise Failed("nothing happens")
        time.sleep(0.002)


def damage(chance, path):
    """Does something to a file; says what."""
    content = bytearray(path.read_bytes())
    how = chance.choice(("flip", "digit", "cut", "remove", "zeros", "repeat", "replace"))
    at = chance.randrange(len(content)) if content else 0
    if how == "remove":
        path.unlink()
        return "removing"
    if how == "flip" and content:
        content[at] ^= 1 << chance.randrange(8)
    elif how == "digit":
        places = [place for place, byte in enumerate(content) if 48 <= byte < 58]
        if places:
            at = chance.choice(places)
            content[at] = 48 + (content[at] - 48 + chance.randint(1, 9)) % 10
    elif how == "cut":
        del content[at:]
    elif how == "zeros":
        content[at : at + 64] = bytes(len(content[at : at + 64]))
    elif how == "repeat":
        content[at:at] = content[at : at + chance.randint(1, 200)]
    else:
        content[:] = chance.randbytes(chance.randint(0, 400))
    path.write_bytes(content)
    return f"{how} at {at} of"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", metavar="SPECTRAL", help="the command, such as target/release/spectral")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="where to work; by default a temporary one")
    parser.add_argument("--log", help="a file to which lines are appended, too")
    parser.add_argument("--strict", action="store_true", help="an accepted change of a text that changes a result fails, too")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds of rounds to choose from")
    options = parser.parse_args()
    kinds = options.only.split(",")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        parser.error(f"unknown kinds {', '.join(unknown)}; there are {', '.join(KINDS)}")
    if not os.access(options.command, os.X_OK):
        parser.error(f"{options.command} cannot be run; `cargo build --release` makes target/release/spectral")
    base = pathlib.Path(options.folder or f"/tmp/spectral-soak-{os.getpid()}").resolve()
    base.mkdir(parents=True, exist_ok=False)
    soak = Soak(options, base)
    try:
        return soak.soak(options.minutes, kinds)
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
