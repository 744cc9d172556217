"""Agents that learn Gymnasium tasks, with the interface known from Stable-Baselines3.

One agent::

    agent = SpectralDQN("CartPole-v1", seed=1)
    agent.learn(50_000)
    action, _ = agent.predict(observation, deterministic=True)

Many agents and seeds on one task, side by side::

    runs = Population("CartPole-v1", agents=["spectral", "clipped"], seeds=5, run_dir="runs/cartpole")
    runs.learn(50_000)
    runs.report("report")
"""

from __future__ import annotations

import operator
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spectral_rl._session import AgentStopped, Session
from spectral_rl.data import Run
from spectral_rl.policies import Acts, Policy, load_policy

__all__ = [
    "Agent",
    "AgentStopped",
    "CategoricalDQN",
    "CompressedDQN",
    "DQN",
    "PopArtDQN",
    "Population",
    "SpectralDQN",
]

class _HasRun:
    """What agents and populations have because of their run."""

    _session: Session

    @property
    def run_dir(self) -> str:
        """The run's folder."""
        return self._session.run_dir

    @property
    def run(self) -> Run:
        """The run's files as :class:`spectral_rl.Run`."""
        return Run(self.run_dir)

    @property
    def notes(self) -> list[str]:
        """What was decided on the way: the device, what checkpoints leave out."""
        return self._session.notes()

    def report(self, out: str | os.PathLike) -> Path:
        """Writes figures, tables and one HTML page about the run, and returns the page's path."""
        return self.run.report(os.fspath(out))

    @property
    def observation_space(self):
        """The space of one observation; ``None`` for Spectral's own tasks, which run without Gymnasium."""
        return self._session.spaces[0]

    @property
    def action_space(self):
        """The space of actions; ``None`` for Spectral's own tasks."""
        return self._session.spaces[1]

    def close(self) -> None:
        """Lets go of the run's folder. A later :meth:`learn` goes on from the last checkpoint."""
        self._session.close()


class Agent(_HasRun, Acts):
    """Any agent by its name: ``spectral agents`` lists them.

    :param name: such as ``"spectral"``, ``"popart"``, ``"compressed"``, ``"clipped"``, ``"categorical"``.
    :param env: a Gymnasium id, an environment, a function that makes one, a vector environment of one, or the name of one
        of Spectral's own tasks, which then run without Python.
    :param seed: decides everything: weights, exploration, minibatches, and the seeds that the task is reset with. ``None``
        draws one.
    :param run_dir: a folder that keeps the run: metrics, checkpoints, weights. The same program started again goes on where
        it was stopped, killed or not. Without it, the run is kept in a temporary folder.
    :param env_kwargs: keyword arguments for the id or the function.
    :param stack: how many successive images the agent sees at once. Cheaper than a wrapper that stacks them.
    :param reproducible: whether seed and actions decide what the task does; found out by a trial if it is not given.
    :param settings: any setting that ``spectral agents --settings`` lists, such as ``learning_rate=1e-4``.

    >>> agent = Agent("spectral", "CartPole-v1", learning_starts=100, epsilon_frames=200)
    >>> agent.learn(300).num_timesteps
    300
    """

    def __init__(
        self,
        name: str,
        env: Any,
        *,
        seed: int | None = 1,
        run_dir: str | os.PathLike | None = None,
        env_kwargs: dict[str, Any] | None = None,
        stack: int = 1,
        reproducible: bool | None = None,
        **settings: Any,
    ):
        self.name = name
        self.seed = secrets.randbelow(2**31) if seed is None else operator.index(seed)
        self._session = Session(
            env,
            [name],
            [self.seed],
            run_dir=run_dir,
            env_kwargs=env_kwargs,
            stack=stack,
            vectorize=None,
            reproducible=reproducible,
            settings=settings,
        )
        self._policy: Policy | None = None

    def learn(self, total_timesteps: int, callback=None, progress_bar: bool = False) -> Agent:
        """Trains for this many more steps and returns the agent.

        With a ``run_dir`` that holds this run already, steps that it has taken are not taken again: a program that calls
        ``learn`` once or several times can be killed at any time and started again.

        :param callback: see :mod:`spectral_rl.callbacks`; a function is called after every step with a dictionary.
        """
        self._policy = None
        self._session.learn(total_timesteps, callback, progress_bar, self)
        return self

    @property
    def num_timesteps(self) -> int:
        """Steps taken so far; frames, for tasks that play several at each step."""
        return self._session.agents()[0].frames

    @property
    def settings(self) -> dict[str, str]:
        """Every setting of the agent, as text."""
        return self._session.settings(0)

    @property
    def policy(self) -> Policy:
        if self._policy is None:
            self._policy = self._session.policy(0)
        return self._policy

    @staticmethod
    def load(path: str | os.PathLike, env=None, **keywords) -> Policy | Agent:
        """What was saved: a file of :meth:`save` as a :class:`Policy`, or a ``run_dir`` as an agent that can go on learning.

        A run needs its task again (``env``); its agent, seed and settings are those that it was made with.
        """
        path = os.fspath(path)
        if os.path.isfile(os.path.join(path, "run.toml")):
            return _load_run(path, env, keywords)
        return load_policy(path, env)

    @classmethod
    def _found(cls, path, env, data, *, env_kwargs=None, stack=1, reproducible=None):
        agent = cls.__new__(cls)
        agent.name, agent.seed, agent._policy = data.name, data.seed, None
        agent._session = Session.found(env, path, env_kwargs, stack, reproducible)
        return agent

    def _evaluation_env(self):
        return self._session.evaluation_env()

    def __repr__(self):
        return f"<{type(self).__name__} {self.name}, seed {self.seed}, {self.num_timesteps:,} steps>"


class _Named(Agent):
    _name = ""

    def __init__(self, env: Any, *more: Any, **keywords: Any):
        if more:
            raise TypeError(
                f"{type(self).__name__} takes the task alone, as {type(self).__name__}('CartPole-v1'), and everything else by "
                "its name; there is no policy to choose (see the setting network)"
            )
        super().__init__(self._name, env, **keywords)


class SpectralDQN(_Named):
    """Spectral DQN (Dann & Thangarajah, 2021): one bounded value per exponentially wide bucket of reward.

    For tasks whose rewards differ by orders of magnitude. See :class:`Agent` for what can be given.
    """

    _name = "spectral"


class PopArtDQN(_Named):
    """DQN with Pop-Art (van Hasselt et al., 2016): targets normalised by their running mean and deviation."""

    _name = "popart"


class CompressedDQN(_Named):
    """DQN+TC (Pohlen et al., 2018): targets squashed by a square root."""

    _name = "compressed"


class DQN(_Named):
    """DQN (Mnih et al., 2015): rewards clipped to −1 … 1."""

    _name = "clipped"


class CategoricalDQN(_Named):
    """A distribution over squashed values, learned by cross-entropy."""

    _name = "categorical"


class Member(Acts):
    """One agent of a :class:`Population`."""

    def __init__(self, population: Population, number: int):
        self._population = population
        self._number = number

    def _now(self):
        return self._population._session.agents()[self._number]

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._now().name

    @property
    def seed(self) -> int:
        """The agent's seed."""
        return self._now().seed

    @property
    def num_timesteps(self) -> int:
        """Steps taken so far."""
        return self._now().frames

    @property
    def score(self) -> float | None:
        """Mean score of about the last twenty episodes."""
        return self._now().score

    @property
    def stopped(self) -> str | None:
        """Why it was stopped early, if it was."""
        return self._now().stopped

    @property
    def policy(self) -> Policy:
        return self._population._policy(self._number)

    def _evaluation_env(self):
        return self._population._session.evaluation_env()

    def __repr__(self):
        return f"<{self.name}, seed {self.seed}, {self.num_timesteps:,} steps>"


class Population(_HasRun):
    """Many agents and seeds on one task, trained side by side in one run directory.

    Every agent is trained once with each seed. Each has the results, to the bit, that it would have alone. The folder is the
    same as that of the ``spectral`` command: ``spectral report`` reads it.

    :param agents: names, such as ``["spectral", "popart", "clipped"]``, or a dictionary of names and settings of their own,
        such as ``{"spectral": {}, "popart": {"learning_rate": 1e-4}}``.
    :param seeds: a count (``5`` means 1 to 5) or a list.
    :param vectorize: ``"async"`` steps the environments in processes of their own, ``"sync"`` with Gymnasium's
        ``SyncVectorEnv``; by default they are stepped one after the other, while agents learn on the other cores.
    """

    def __init__(
        self,
        env: Any,
        *,
        agents: Sequence[str] | Mapping[str, Mapping[str, Any]] = ("spectral",),
        seeds: int | Sequence[int] = 1,
        run_dir: str | os.PathLike | None = None,
        env_kwargs: dict[str, Any] | None = None,
        stack: int = 1,
        vectorize: str | None = None,
        reproducible: bool | None = None,
        **settings: Any,
    ):
        if isinstance(agents, str):
            agents = agents.split(",")
        if isinstance(agents, Mapping):
            for name, own in agents.items():
                settings |= {f"agent.{name}.{key}": value for key, value in own.items()}
        if isinstance(seeds, str):
            raise TypeError(f"seeds is {seeds!r}: give a count, such as 5, or a list, such as range(1, 6)")
        seeds = list(range(1, seeds + 1)) if isinstance(seeds, int) else [operator.index(seed) for seed in seeds]
        self._session = Session(
            env,
            list(agents),
            seeds,
            run_dir=run_dir,
            env_kwargs=env_kwargs,
            stack=stack,
            vectorize=vectorize,
            reproducible=reproducible,
            settings=settings,
        )
        self._policies: dict[int, Policy] = {}

    def learn(self, total_timesteps: int, callback=None, progress_bar: bool = False) -> Population:
        """Trains every agent for this many more steps. See :meth:`Agent.learn`."""
        self._policies.clear()
        self._session.learn(total_timesteps, callback, progress_bar, self)
        return self

    @property
    def agents(self) -> list[Member]:
        """The agents: every name with every seed."""
        return [Member(self, number) for number in range(len(self._session.agents()))]

    def __len__(self) -> int:
        return len(self._session.agents())

    def __iter__(self) -> Iterator[Member]:
        return iter(self.agents)

    def __getitem__(self, number: int) -> Member:
        return self.agents[number]

    def _policy(self, number: int) -> Policy:
        if number not in self._policies:
            self._policies[number] = self._session.policy(number)
        return self._policies[number]

    def __repr__(self):
        return f"<Population of {len(self._session.agents())} agents>"


def _load_run(path, env, keywords):
    run = Run(path)
    if len(run.agents) != 1:
        raise ValueError(
            f"{path} holds {len(run.agents)} agents: make the same Population again, with run_dir={path!r}, to go on, or read "
            "one agent with spectral_rl.Run(path).agents[i].policy()"
        )
    if env is None and run.task.startswith("gymnasium/"):
        raise ValueError(f"{path} is a run on {run.task}: pass the task again, as load({path!r}, env=...)")
    return Agent._found(path, run.task if env is None else env, run.agents[0], **keywords)
