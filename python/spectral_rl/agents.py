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

import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from spectral_rl import _native, _spaces
from spectral_rl._observing import ObservationReader
from spectral_rl._session import AgentStopped, Session, setting_text

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

Environment = "str | gymnasium.Env | Callable[[], gymnasium.Env] | gymnasium.vector.VectorEnv"


class Policy:
    """What an agent has learned, frozen: it acts and can be asked, but does not learn.

    :func:`spectral_rl.load` makes one from a file, :attr:`Agent.policy` from an agent.
    """

    def __init__(self, native, reader: ObservationReader, *, epsilon: float = 0.0, seed: int = 0):
        self.native = native
        self._reader = reader
        self._epsilon = epsilon
        self._rng = np.random.default_rng(seed)

    def predict(
        self,
        observation,
        state: np.ndarray | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
        action_masks=None,
    ):
        """The actions for one observation or a batch of them, and the state to pass in with the next.

        With ``deterministic=False`` it explores a little, as it does at the end of training (``epsilon_final``). The state
        is only needed by agents made with ``stack`` above 1, which look at several observations at once.
        """
        rows, single, state = self._reader.rows(observation, state, episode_start)
        masks = self._masks(action_masks, len(rows))
        actions = self.native.act(rows, masks)
        if not deterministic and self._epsilon > 0:
            for row in np.flatnonzero(self._rng.random(len(actions)) < self._epsilon):
                legal = np.arange(self._reader.actions) if masks is None else np.flatnonzero(masks[row])
                actions[row] = self._rng.choice(legal)
        actions = actions + self._reader.action_start
        return (actions[0] if single else actions), state

    def _masks(self, masks, rows):
        if masks is None:
            return None
        return np.ascontiguousarray(np.asarray(masks, dtype=bool).reshape(rows, self._reader.actions))

    def _ask(self, question, observation):
        rows, single, _ = self._reader.rows(observation, None, None)
        answer = question(rows)
        return answer[0] if single else answer

    def q_values(self, observation) -> np.ndarray:
        """The value of every action, in the task's own rewards: ``(actions,)``, or ``(batch, actions)`` for a batch."""
        return self._ask(self.native.q_values, observation)

    def spectrum(self, observation) -> np.ndarray:
        """The value of every action split by frequency: ``(actions, frequencies)``, or with a batch in front.

        Weighted by :attr:`weights` and summed over the last axis it gives :meth:`q_values`.
        """
        if self.native.frequencies is None:
            raise ValueError(
                f"the agent {self.native.agent} has no spectrum: only agents that split rewards into frequencies have one, such "
                "as SpectralDQN; q_values() and outputs() work for all"
            )
        return self.outputs(observation)

    @property
    def weights(self) -> np.ndarray | None:
        """The weight of each frequency, or ``None`` for agents without frequencies."""
        return self.native.weights

    def outputs(self, observation) -> np.ndarray:
        """What the network puts out, ``(actions, outputs)``, before it is decoded to values."""
        return self._ask(self.native.outputs, observation)

    def save(self, path: str | os.PathLike) -> None:
        """Writes weights and everything needed to act into one ``.safetensors`` file."""
        self.native.save(os.fspath(path))

    def export_onnx(self, path: str | os.PathLike) -> None:
        """Writes the network, with the decoding of its values, as an ONNX model.

        Its input is ``observation``; its outputs are ``q_values`` and ``outputs``.
        """
        self.native.export_onnx(os.fspath(path))

    def __repr__(self):
        return f"<{type(self).__name__} {self.native.agent}, {self.native.frames:,} frames>"


class _Acts:
    """The questions of :class:`Policy`, asked of an agent."""

    @property
    def policy(self) -> Policy:
        """The agent as it is now, frozen."""
        raise NotImplementedError

    def predict(
        self, observation, state=None, episode_start=None, deterministic: bool = False, action_masks=None
    ):
        """See :meth:`Policy.predict`."""
        return self.policy.predict(observation, state, episode_start, deterministic, action_masks)

    def q_values(self, observation) -> np.ndarray:
        """See :meth:`Policy.q_values`."""
        return self.policy.q_values(observation)

    def spectrum(self, observation) -> np.ndarray:
        """See :meth:`Policy.spectrum`."""
        return self.policy.spectrum(observation)

    def outputs(self, observation) -> np.ndarray:
        """See :meth:`Policy.outputs`."""
        return self.policy.outputs(observation)

    def save(self, path: str | os.PathLike) -> None:
        """See :meth:`Policy.save`. To go on learning later, give the agent a ``run_dir`` instead."""
        self.policy.save(path)

    def export_onnx(self, path: str | os.PathLike) -> None:
        """See :meth:`Policy.export_onnx`."""
        self.policy.export_onnx(path)

    def evaluate(self, episodes: int = 10, env=None, *, deterministic: bool = True, seed: int = 0) -> np.ndarray:
        """Plays episodes without learning and returns their returns."""
        env = self._evaluation_env() if env is None else env
        policy, returns = self.policy, []
        for episode in range(episodes):
            observation, info = env.reset(seed=seed + episode)
            state, start, total, over = None, np.array([True]), 0.0, False
            while not over:
                masks = info.get("action_mask")
                action, state = policy.predict(observation, state, start, deterministic, masks)
                observation, reward, terminated, truncated, info = env.step(action)
                total += float(reward)
                start, over = np.array([False]), terminated or truncated
            returns.append(total)
        return np.array(returns)

    def _evaluation_env(self):
        raise NotImplementedError


class Agent(_Acts):
    """Any agent by its name: ``spectral agents`` lists them.

    :param name: such as ``"spectral"``, ``"popart"``, ``"compressed"``, ``"clipped"``, ``"categorical"``.
    :param env: a Gymnasium id, an environment, a function that makes one, a vector environment of one, or the name of one
        of Spectral's own tasks, which then run without Python.
    :param seed: decides everything: weights, exploration, minibatches, and the seeds that the task is reset with.
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
        seed: int = 1,
        run_dir: str | os.PathLike | None = None,
        env_kwargs: dict[str, Any] | None = None,
        stack: int = 1,
        reproducible: bool | None = None,
        **settings: Any,
    ):
        self.name = name
        self.seed = int(seed)
        self._env = env
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
    def run_dir(self) -> str:
        """The run's folder."""
        return self._session.run_dir

    @property
    def run(self):
        """The run's files as :class:`spectral_rl.Run`."""
        from spectral_rl.data import Run

        return Run(self.run_dir)

    @property
    def notes(self) -> list[str]:
        """What was decided on the way: the device, what checkpoints leave out."""
        return self._session.notes()

    @property
    def settings(self) -> dict[str, str]:
        """Every setting of the agent, as text."""
        return self._session.settings(0)

    @property
    def policy(self) -> Policy:
        if self._policy is None:
            self._policy = self._session.policy(0)
        return self._policy

    def report(self, out: str | os.PathLike) -> None:
        """Writes figures, tables and one HTML page about the run."""
        self.run.report(os.fspath(out))

    def close(self) -> None:
        """Lets go of the run's folder. A later :meth:`learn` goes on from the last checkpoint."""
        self._session.close()

    @staticmethod
    def load(path: str | os.PathLike, env=None, **keywords) -> Policy | Agent:
        """What was saved: a file of :meth:`save` as a :class:`Policy`, or a ``run_dir`` as an agent that can go on learning.

        A run needs its task again (``env``); its agent, seed and settings are those that it was made with.
        """
        return load(path, env, **keywords)

    def _evaluation_env(self):
        return self._session.evaluation_env()

    def __repr__(self):
        return f"<{type(self).__name__} {self.name}, seed {self.seed}, {self.num_timesteps:,} steps>"


class _Named(Agent):
    _name = ""

    def __init__(self, env: Any, **keywords: Any):
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


class Member(_Acts):
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


class Population:
    """Many agents and seeds on one task, trained side by side in one run directory.

    Every agent is trained once with each seed. Each has the results, to the bit, that it would have alone. The folder is the
    same as that of the ``spectral`` command: ``spectral report`` and ``spectral eval`` read it.

    :param agents: names, such as ``["spectral", "popart", "clipped"]``.
    :param seeds: a count (``5`` means 1 to 5) or a list.
    :param vectorize: ``"async"`` steps the environments in processes of their own, ``"sync"`` with Gymnasium's
        ``SyncVectorEnv``; by default they are stepped one after the other, while agents learn on the other cores.
    """

    def __init__(
        self,
        env: Any,
        *,
        agents: Sequence[str] = ("spectral",),
        seeds: int | Sequence[int] = 1,
        run_dir: str | os.PathLike | None = None,
        env_kwargs: dict[str, Any] | None = None,
        stack: int = 1,
        vectorize: str | None = None,
        reproducible: bool | None = None,
        **settings: Any,
    ):
        if isinstance(agents, str):
            agents = [agents]
        seeds = list(range(1, seeds + 1)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
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

    @property
    def run_dir(self) -> str:
        """The run's folder."""
        return self._session.run_dir

    @property
    def run(self):
        """The run's files as :class:`spectral_rl.Run`."""
        from spectral_rl.data import Run

        return Run(self.run_dir)

    @property
    def notes(self) -> list[str]:
        """What was decided on the way: the device, what checkpoints leave out."""
        return self._session.notes()

    def report(self, out: str | os.PathLike) -> None:
        """Writes figures, tables and one HTML page about the run."""
        self.run.report(os.fspath(out))

    def close(self) -> None:
        """Lets go of the run's folder. A later :meth:`learn` goes on from the last checkpoint."""
        self._session.close()

    def _policy(self, number: int) -> Policy:
        if number not in self._policies:
            self._policies[number] = self._session.policy(number)
        return self._policies[number]

    def __repr__(self):
        return f"<Population of {len(self._session.agents())} agents>"


def load(path: str | os.PathLike, env=None, **keywords) -> Policy | Agent:
    """A saved model as a :class:`Policy`, or the agent of a ``run_dir``, which can go on learning.

    :param path: a ``.safetensors`` file, an agent's folder of a run, or a ``run_dir`` of one agent.
    :param env: the task, which a run needs to go on.
    """
    path = os.fspath(path)
    if os.path.isfile(os.path.join(path, "run.toml")):
        return _load_run(path, env, keywords)
    native = _native.Policy.load(path)
    return Policy(native, ObservationReader.of_policy(native, None if env is None else _space_of(env)))


def _space_of(env):
    return getattr(env, "single_observation_space", None) or getattr(env, "observation_space", None)


def _load_run(path, env, keywords):
    from spectral_rl.data import Run

    run = Run(path)
    if len(run.agents) != 1:
        raise ValueError(
            f"{path} holds {len(run.agents)} agents: make a Population with run_dir={path!r} to go on, or read one agent with "
            "spectral_rl.Run(path).agents[i].policy()"
        )
    if env is None:
        env = run.task
        if env.startswith("gymnasium/"):
            raise ValueError(f"{path} is a run on {env}: pass the task again, as load({path!r}, env=...)")
    agent = run.agents[0]
    settings = {**run.changed_settings(agent), **keywords}
    made = Agent(agent.name, env, seed=agent.seed, run_dir=path, **settings)
    made._session.open()
    return made
