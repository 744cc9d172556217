"""A search as its users hold it."""

import math
import os
import sys
from pathlib import Path

from spectral_rl.search import _table
from spectral_rl.search._description import FILE, Description, read_toml
from spectral_rl.search._journal import Journal, optuna
from spectral_rl.search._plans import Plans, agent_toml
from spectral_rl.search._populations import FOLDER, PopulationDir, built_aside

AGENT = "agent.toml"


def create(
    folder,
    *,
    task,
    space,
    agent="spectral",
    frames=200_000,
    trials=40,
    population=8,
    seeds=1,
    sampler="tpe",
    sampler_seed=1,
    stack=1,
    env_kwargs=None,
    **settings,
):
    """Makes a search in a folder that all its workers can reach, or opens it if the folder holds this very search.

    :param task: the name of one of Spectral's tasks, or the id of a Gymnasium task; ``"my_module:MyTask-v0"`` imports
        ``my_module``, which registers it.
    :param space: what is searched: settings of the agent, and :func:`log`, :func:`uniform`, :func:`integer` or :func:`choice`.
    :param agent: the agent's name, or a TOML file with its settings.
    :param frames: frames of each trial and seed.
    :param trials: how many sets of settings are tried.
    :param population: how many of them are trained side by side; each with all seeds.
    :param seeds: a count (``2`` means 1 and 2) or a list. A trial's value is the mean of its seeds' final scores.
    :param sampler: ``"tpe"``, Optuna's tree-structured Parzen estimator, or ``"random"``.
    :param sampler_seed: decides what is proposed.
    :param settings: any other setting of a run, the task or the agent, the same in all trials.
    """
    optuna()
    folder = _folder(folder)
    description = Description.checked(
        task=task,
        agent=agent,
        seeds=seeds,
        frames=frames,
        trials=trials,
        population=population,
        sampler=sampler,
        sampler_seed=sampler_seed,
        stack=stack,
        env_kwargs=dict(env_kwargs or {}),
        settings=settings,
        space=space,
    )
    plans = Plans(description)
    codec, base = plans.base_agent()
    reason = plans.check_space(codec, base)
    if reason is not None:
        if plans.trains_on_gpu():
            raise ValueError(
                f"{reason}, and it is searched: train on the CPU (device='cpu'), or make a search for each of its values"
            )
        # A worker on a machine with a GPU trains where the others do.
        description.settings["device"] = "cpu"
    if (folder / FILE).exists():
        return _same(folder, description)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists already, holds no search and is left as it is: give another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    from spectral_rl import __version__

    try:
        with built_aside(folder) as building:
            description.write(building, __version__)
            (building / AGENT).write_text(agent_toml(codec, base), encoding="utf-8")
            (building / FOLDER).mkdir()
            Journal.create(building, description.trials)
    except FileExistsError:
        return _same(folder, description)
    return Search(folder)


def load(folder):
    """Opens a search that is in a folder already."""
    return Search(folder)


def _folder(folder):
    folder = os.fspath(folder)
    if not isinstance(folder, str) or not folder:
        raise TypeError(f"folder is {folder!r}, and must be the name of a folder")
    folder = Path(os.path.abspath(folder))
    if "," in str(folder):
        raise ValueError(f"{folder} has a comma in its name, which separates agents: give another folder")
    return folder


def _same(folder, wanted):
    search = Search(folder)
    difference = search.description.differs_from(wanted)
    if difference is not None:
        raise ValueError(f"{folder} holds another search, and is left as it is ({difference}): give another folder")
    return search


class Search:
    """A search in its folder. :func:`create` makes one, :func:`load` opens one."""

    def __init__(self, folder):
        #: Its folder.
        self.folder = _folder(folder)
        #: What is searched and how.
        self.description = Description.read(self.folder)

    def work(self, *, wait=True, progress_bar=False, device=None, threads=None, log=None):
        """Trains populations until all trials are done, whoever does them.

        Call it in as many processes as you like. Killed at any moment, it goes on where it was when it is called again, here or
        elsewhere. Ctrl-C or SIGTERM: a checkpoint, then ``KeyboardInterrupt``.

        :param wait: when only populations are left that other workers train: wait, and take over those whose worker dies.
        :param device: another device than the search's, such as ``"cuda:1"``.
        :param threads: how many threads train; all cores if it is not given.
        :param log: a function that gets a line of text now and then; by default they go to standard error.
        """
        from spectral_rl.search._worker import Worker

        own = {key: value for key, value in (("device", device), ("threads", threads)) if value is not None}
        Worker(self, own, progress_bar, log or _say).work(wait)
        return self

    def give_up(self, population, reason="by hand"):
        """Counts all trials of a population as failed, so that workers leave it: for one that can never be trained, because its
        agents do not fit into memory, say.

        :param population: its number.
        """
        from spectral_rl.search._worker import Worker

        Worker(self, {}, False, _say).give_up(population, reason)

    def populations(self):
        """The populations that there are so far."""
        return PopulationDir.all(self.folder)

    def results(self):
        """One dict for every trial: ``trial``, ``state``, ``value``, ``low`` and ``high`` (the ends of the 95% interval over
        seeds), ``scores``, ``params``, ``population``, ``failed`` and ``agent`` (its file).

        The state is ``"finished"``, ``"failed"``, ``"training"`` or ``"waiting"``.
        """
        rows = []
        for population in self.populations():
            values = population.values()
            for trial in population.trials():
                known = (values or {}).get(trial["number"], {"value": None, "scores": {}, "failed": None})
                low, high = _table.interval(list(known["scores"].values())) if known["value"] is not None else (None, None)
                failed = known["failed"] is not None
                rows.append(
                    {
                        "trial": trial["number"],
                        "state": "training" if values is None else "failed" if failed else "finished",
                        "value": known["value"],
                        "low": low,
                        "high": high,
                        "scores": {int(seed): score for seed, score in known["scores"].items()},
                        "params": trial["params"],
                        "population": population.number,
                        "failed": known["failed"],
                        "agent": str(population.path / trial["agent"]),
                    }
                )
        nothing = dict.fromkeys(("value", "low", "high", "population", "failed", "agent"))
        for number in range(len(rows), self.description.trials):
            rows.append({"trial": number, "state": "waiting", "scores": {}, "params": {}, **nothing})
        return rows

    @property
    def best(self):
        """The finished trial with the highest value, of equal ones the first; ``None`` if none has finished."""
        finished = [row for row in self.results() if row["state"] == "finished"]
        return max(finished, key=lambda row: row["value"], default=None)

    def show(self):
        """Prints what there is: trials, the best first, with 95% intervals over seeds, and how to judge the best anew."""
        print(_table.text(self))

    def study(self):
        """The search as Optuna's study, for its plots and its dashboard. Only read it."""
        return Journal(self.folder).study

    def agent_settings(self):
        """Codec and settings of the agent that is searched, as they are where a trial does not change them."""
        settings = read_toml(self.folder / AGENT)
        return settings.pop("codec"), settings

    def __repr__(self):
        return f"<Search {str(self.folder)!r}: {self.description.agent} on {self.description.task}>"


def trials_of(description, population):
    """The numbers of a population's trials: its first and how many."""
    first = (population - 1) * description.population
    return first, min(description.population, description.trials - first)


def count_populations(description):
    """How many populations a search has in all."""
    return math.ceil(description.trials / description.population)


def _say(text):
    print(text, file=sys.stderr, flush=True)
