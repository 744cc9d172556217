"""Run directories and trained agents, as data.

    import pandas
    import spectral_rl

    run = spectral_rl.Run("runs/2048")
    for agent in run.agents:
        print(agent.name, agent.seed, pandas.DataFrame(agent.episodes())["score"].tail(100).mean())
    policy = run.agents[0].policy()
"""

import os
import shlex
from pathlib import Path

from spectral_rl import _native
from spectral_rl.policies import load_policy

__all__ = ["AgentData", "Run"]


class Run:
    """A run directory, finished or not, by whichever program it was written.

    It is read when the object is made; :meth:`reload` reads it again. Columns are read whenever they are asked for.

    >>> from spectral_rl import Run
    >>> Run("no/such/folder")
    Traceback (most recent call last):
    ...
    FileNotFoundError: no/such/folder is not a run directory: it has no run.toml
    """

    def __init__(self, path):
        self.path = Path(path)
        self.reload()

    def reload(self):
        """Reads the directory again: a run that is being trained has got further since."""
        data = _native.read_run(os.fspath(self.path))
        #: The task's name.
        self.task = data["task"]
        #: Everything in ``run.toml``, as a dict.
        self.settings = data["settings"]
        #: ``"running"`` (or killed), ``"interrupted"`` or ``"finished"``.
        self.status = data["status"]
        #: Planned frames per agent.
        self.frames = data["frames"]
        #: Seconds of training so far.
        self.seconds = data["seconds"]
        #: One :class:`AgentData` per agent of the population.
        self.agents = [AgentData(self.path, entry) for entry in data["agents"]]

    def agent(self, name, seed=None):
        """The agent of this id, or of this name and seed; a name alone will do if it has one seed."""
        found = [a for a in self.agents if a.id == name or (a.name == name and seed in (None, a.seed))]
        if len(found) == 1:
            return found[0]
        there = ", ".join(a.id for a in self.agents)
        what = f"{name!r}" if seed is None else f"{name!r} with seed {seed}"
        raise KeyError(f"{len(found) or 'no'} agents are {what}; there are {there}")

    def report(self, out=None, *, title="Training report", baseline="spectral", at_frames=None):
        """Writes the report of ``spectral report`` into the folder ``out`` and returns the path of its page.

        Without ``out``, it goes into the folder ``report`` of the run.
        """
        out = self.path / "report" if out is None else out
        page = _native.write_report(
            [os.fspath(self.path)], os.fspath(out), title=title, baseline=baseline, at_frames=at_frames
        )
        return Path(page)

    def __repr__(self):
        return f"<Run of {self.task} in {str(self.path)!r}: {len(self.agents)} agents, {self.status}>"


class AgentData:
    """One agent of a run."""

    def __init__(self, run_path, entry):
        #: The folder's name: name and seed.
        self.id = entry["id"]
        #: The name under which curves are grouped.
        self.name = entry["name"]
        #: Its value codec.
        self.codec = entry["codec"]
        #: Its seed.
        self.seed = entry["seed"]
        #: Every setting of the agent and its codec.
        self.settings = entry["settings"]
        #: Frames seen so far.
        self.frames = entry["frames"]
        #: Why it was taken out of the population, or ``None``.
        self.stopped = entry["stopped"]
        #: Its folder.
        self.path = Path(run_path) / "agents" / self.id
        self._running = entry["running"]

    def _table(self, name):
        return _native.read_table(os.fspath(self.path / name), self._running)

    def episodes(self):
        """Finished training episodes: columns ``frame``, ``return``, ``score``, ``length``."""
        return self._table("episodes.csv")

    def metrics(self):
        """What was logged: one row per logging interval. A value that did not exist yet is NaN."""
        return self._table("metrics.csv")

    def td_errors(self):
        """TD errors by the player's score. Without columns if the task has no player's score."""
        return self._table("td_error.csv")

    def evaluations(self):
        """Frozen games beside training. In ``model``, 0 is the model being trained and 1 a mean of its weights. Without columns
        if the run played none."""
        return self._table("eval.csv")

    def policy(self):
        """The trained agent. An agent that is still training has none yet: a model is written when a run ends."""
        try:
            return load_policy(self.path)
        except FileNotFoundError:
            run = str(self.path.parent.parent)
            # A shell gives a leading dash to the command as an option, in quotes or not.
            run = shlex.quote(f"./{run}" if run.startswith("-") else run)
            why = self.stopped or f"it is written when the run ends; finish the run with `spectral resume {run}`"
            raise FileNotFoundError(f"{self.id} has no model: {why}") from None

    def __repr__(self):
        state = f", stopped: {self.stopped}" if self.stopped else ""
        return f"<AgentData {self.id}: {self.frames} frames{state}>"
