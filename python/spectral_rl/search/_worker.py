"""A worker: trains a population after the other until the search is done."""

import contextlib
import shutil
import signal
import threading
import time
import warnings

from spectral_rl.agents import Population
from spectral_rl.search._journal import Journal
from spectral_rl.search._plans import Plans, agent_toml
from spectral_rl.search._populations import FOLDER, PopulationDir
from spectral_rl.search._search import count_populations, trials_of

# Seconds between two looks at populations that others train.
_PAUSE = 5.0
# What a killed worker left half-made is removed after this many seconds.
_STALE = 86_400.0
# What the trainer says of a run that is another process's, that another has taken over, or that another has begun just now.
_TAKEN = ("another process", "other processes", "has lost the run", "exists already and is left as it is")


class Worker:
    """Works on a search, in this process."""

    def __init__(self, search, settings, progress_bar, log):
        self._search, self._settings, self._bar, self._log = search, settings, progress_bar, log
        self._description = search.description
        self._journal = Journal(search.folder)
        self._plans = None

    def work(self, wait):
        """Until all is done; see :meth:`Search.work`."""
        self._remove_leftovers()
        waits = False
        with _Signals() as signals:
            while True:
                signals.check()
                there = PopulationDir.all(self._search.folder)
                left = [population for population in there if population.values() is None]
                if any(self._train(population, signals) for population in left):
                    waits = False
                elif len(there) < count_populations(self._description):
                    population = self._propose(there)
                    signals.check()
                    if population is not None:
                        self._train(population, signals)
                elif not left:
                    self._tidy_up(there)
                    return
                elif not wait:
                    self._log(f"others train what is left: {_names(left)}")
                    return
                else:
                    if not waits:
                        self._log(f"waiting for others, who train what is left: {_names(left)}")
                    waits = True
                    signals.sleep(_PAUSE)

    def _propose(self, there):
        """Makes the next population; ``None`` if another worker was faster."""
        population = PopulationDir(self._search.folder, len(there) + 1)
        first, count = trials_of(self._description, population.number)
        drawn = [trial["params"] for earlier in there for trial in earlier.trials()]
        proposed = self._journal.ask(self._description, population.number, first, count, drawn)
        if self._plans is None:
            self._plans = Plans(self._description)
        codec, base = self._search.agent_settings()
        trials = [
            {"number": first + i, "params": params, "agent": f"trial-{first + i}.toml", "refused": None}
            for i, params in enumerate(proposed)
        ]

        def write_agents(folder):
            for trial in trials:
                file = folder / trial["agent"]
                file.write_text(agent_toml(codec, {**base, **trial["params"]}), encoding="utf-8")
                try:
                    self._plans.plan([file], device="cpu")
                except ValueError as error:
                    # Settings that are good one by one and not together: no other trial suffers from it.
                    trial["refused"] = str(error).replace(str(folder), str(population.path))

        return population if population.make(trials, write_agents) else None

    def _train(self, population, signals):
        """Trains a population, or finishes it, and tells its trials' values. False if another worker is at it."""
        if population.values() is not None:
            return True
        trials = population.trials()
        for trial in trials:
            self._journal.begin(trial["number"], trial["params"], self._description.space)
        agents = population.agents()
        with contextlib.ExitStack() as stack:
            if agents:
                try:
                    run = self._open(population, agents)
                    stack.callback(run.close)
                    # Values are written by who holds the run: another worker may have done so since they were looked for.
                    if population.values() is not None:
                        return True
                    numbers = f"{trials[0]['number']} to {trials[-1]['number']}" if len(trials) > 1 else trials[0]["number"]
                    self._learn(run, f"population {population.number}: trials {numbers}", population.progress(), signals)
                except (OSError, RuntimeError, ValueError) as error:
                    # Another worker may have ended it since it was looked at, and removed its checkpoints.
                    if population.values() is not None:
                        return True
                    if _is_taken(error):
                        return False
                    raise
            # The run is still this process's, so that nobody does the same beside it.
            rows = population.outcomes(self._description.seeds)
            self._tell(rows)
            population.write_values(rows)
            population.drop_checkpoints()
        finished = [row for row in rows if row["value"] is not None]
        best = max(finished, key=lambda row: row["value"], default=None)
        said = "no trial has a value" if best is None else f"trial {best['number']} is its best with {best['value']:.6g}"
        self._log(f"population {population.number} is done: {said}")
        return True

    def give_up(self, number, reason):
        """Tells that all trials of a population have failed; see :meth:`Search.give_up`."""
        there = PopulationDir.all(self._search.folder)
        if not 1 <= number <= len(there):
            raise ValueError(f"there is no population {number}: {len(there)} have begun")
        population = there[number - 1]
        if population.values() is not None:
            raise ValueError(f"population {number} is done already")
        trials = population.trials()
        with contextlib.ExitStack() as stack:
            if agents := population.agents():
                try:
                    stack.callback(self._open(population, agents).close)
                except Exception as error:
                    if _is_taken(error):
                        raise ValueError(f"a worker trains population {number}: stop it first") from None
                    # What keeps it from being trained must not keep it from being given up.
                    self._log(f"population {number} cannot be trained: {error}")
                # A worker may have come to the end since its values were looked for.
                if population.values() is not None:
                    raise ValueError(f"population {number} is done already")
            for trial in trials:
                self._journal.begin(trial["number"], trial["params"], self._description.space)
            failed = {"value": None, "scores": {}, "failed": f"given up: {reason}"}
            rows = [{"number": trial["number"], **failed} for trial in trials]
            self._tell(rows)
            population.write_values(rows)

    def _tell(self, rows):
        for row in rows:
            notes = {"scores": row["scores"]} if row["failed"] is None else {"failed": row["failed"]}
            self._journal.tell(row["number"], row["value"], notes)
            if row["failed"] is not None:
                self._log(f"trial {row['number']} failed: {row['failed']}")

    def _tidy_up(self, populations):
        """Does what workers that were killed, or taken for dead, have left undone of populations that have their values.

        A line of the journal may be lost if the lock is taken from a worker that only slept.
        """
        known = self._journal.trials()
        for population in populations:
            rows = population.values()
            for trial in population.trials():
                if not known[trial["number"]].state.is_finished():
                    self._journal.begin(trial["number"], trial["params"], self._description.space)
                    self._tell([rows[trial["number"]]])
            population.drop_checkpoints()

    def _open(self, population, agents):
        description = self._description
        return Population(
            description.task,
            agents=agents,
            seeds=description.seeds,
            run_dir=population.run_dir,
            env_kwargs=description.env_kwargs,
            stack=description.stack,
            **{**description.settings, **self._settings},
        )

    def _learn(self, run, name, progress, signals):
        self._log(f"{name}{f', from {progress:.0%}' if progress else ''}")
        with signals.ending(run), warnings.catch_warnings():
            # It is told as a failed trial.
            warnings.filterwarnings("ignore", message=r".* was stopped: ")
            run.learn(self._description.frames, progress_bar=self._bar)
        signals.check()

    def _remove_leftovers(self):
        """Removes what workers that were killed had not finished making."""
        for path in (self._search.folder / FOLDER).glob(".*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE:
                    shutil.rmtree(path)


def _is_taken(error):
    return any(words in str(error) for words in _TAKEN)


def _names(populations):
    numbers = ", ".join(str(population.number) for population in populations)
    return f"population{'s' if len(populations) > 1 else ''} {numbers}"


class _Signals:
    """Ctrl-C and SIGTERM: training ends after the current step, with a checkpoint, and then ``KeyboardInterrupt`` is raised.

    A signal only leaves a note. Were it to raise wherever the worker is, the journal's lock could be lost. Schedulers send a
    signal to a process and to its group, so that it comes twice; a second one is the same wish.
    """

    def __init__(self):
        self._asked = threading.Event()
        self._before = {}
        self._run = None

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for kind in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(kind)
                # One that is ignored stays so, and one that somebody has set for SIGTERM too.
                if callable(handler) if kind == signal.SIGINT else handler == signal.SIG_DFL:
                    self._before[kind] = handler
                    signal.signal(kind, self._note)
        return self

    def __exit__(self, *_):
        for kind, handler in self._before.items():
            signal.signal(kind, handler)

    def _note(self, *_):
        if not self._asked.is_set():
            self._asked.set()
            if self._run is not None:
                threading.Thread(target=self._end, daemon=True).start()

    def _end(self):
        # Again and again: a run that is about to begin forgets what it was told before.
        while (run := self._run) is not None:
            run._session.cancel()
            time.sleep(0.1)

    @contextlib.contextmanager
    def ending(self, run):
        """While a run trains, a signal ends it."""
        self._run = run
        try:
            self.check()
            yield
        finally:
            self._run = None

    def check(self):
        """Raises if there was a signal."""
        if self._asked.is_set():
            raise KeyboardInterrupt

    def sleep(self, seconds):
        """Sleeps, if there is no signal."""
        # In short pieces: some systems do not wake a thread that waits.
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._asked.is_set():
            time.sleep(0.05)
