"""Agents that no longer learn, and the questions that any agent can be asked."""

from __future__ import annotations

import os

import numpy as np

from spectral_rl import _native
from spectral_rl._observing import ObservationReader

__all__ = ["Acts", "Policy", "load_policy"]


# What a policy says of itself.
_FACTS = (
    "actions",
    "agent",
    "codec",
    "frames",
    "frequencies",
    "observation_kind",
    "observation_shape",
    "seed",
    "stack",
    "task",
)


class Policy:
    """What an agent has learned, frozen: it acts and can be asked, but does not learn.

    :func:`spectral_rl.load_policy` makes one from a file, :attr:`spectral_rl.Agent.policy` from an agent. It has ``agent``,
    ``codec``, ``task``, ``seed``, ``frames``, ``actions`` (their names), ``observation_shape`` and ``frequencies`` (how many,
    or ``None``) too.
    """

    def __init__(self, native, reader: ObservationReader | None = None, *, epsilon: float = 0.0, seed: int = 0):
        self.native = native
        # Without it, observations come as the network sees them.
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
        start, masks = 0, action_masks
        if self._reader is not None:
            start = self._reader.action_start
            observation, single, state = self._reader.rows(observation, state, episode_start)
            observation = self._shaped(observation)
            if masks is not None and single:
                masks = np.asarray(masks, dtype=bool)[None]
        answer = np.asarray(self.native.act(observation, masks))
        if self._reader is None:
            single = answer.ndim == 0
        actions = np.atleast_1d(answer)
        if not deterministic and self._epsilon > 0:
            for row in np.flatnonzero(self._rng.random(len(actions)) < self._epsilon):
                everything = np.arange(len(self.native.actions))
                legal = everything if masks is None else np.flatnonzero(np.atleast_2d(masks)[row])
                actions[row] = self._rng.choice(legal)
        actions = actions + start
        return (actions[0] if single else actions), state

    def _shaped(self, rows):
        return rows.reshape(len(rows), *self.native.observation_shape)

    def _ask(self, question, observation):
        if self._reader is None:
            return question(observation)
        rows, single, _ = self._reader.rows(observation, None, None)
        answer = question(self._shaped(rows))
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

    def act(self, observation, mask=None):
        """The best action for one observation or a batch of them, of those that the mask allows."""
        actions = self.predict(observation, deterministic=True, action_masks=mask)[0]
        return int(actions) if np.ndim(actions) == 0 else actions

    @property
    def weights(self) -> np.ndarray | None:
        """The weight of each frequency, or ``None`` for agents without frequencies."""
        return self.native.weights

    def outputs(self, observation) -> np.ndarray:
        """What the network puts out, ``(actions, outputs)``, before it is decoded to values."""
        return self._ask(self.native.outputs, observation)

    def save(self, path: str | os.PathLike) -> None:
        """Writes weights and everything needed to act into one ``.safetensors`` file."""
        self.native.save(_target(path))

    def export_onnx(self, path: str | os.PathLike) -> None:
        """Writes the network, with the decoding of its values, as an ONNX model.

        Its input is ``observation``; its outputs are ``q_values`` and ``outputs``.
        """
        self.native.export_onnx(_target(path))

    def __getattr__(self, name):
        if name in _FACTS:
            return getattr(self.native, name)
        raise AttributeError(f"a policy has no {name!r}")

    def __repr__(self):
        return f"<Policy of {self.agent} (seed {self.seed}) on {self.task}, {self.frames} frames>"


class Acts:
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
        """Plays episodes without learning and returns their returns.

        :param env: an environment, an id or a function that makes one; by default one like the agent's own.
        """
        if env is None:
            env = self._evaluation_env()
        elif isinstance(env, (str, type)) or not hasattr(env, "reset"):
            env = _make(env)
        if episodes < 0:
            raise ValueError(f"{episodes} episodes cannot be played")
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


def load_policy(path: str | os.PathLike, env=None) -> Policy:
    """Loads a trained agent from a ``model.safetensors``, an agent's folder, or a run directory that has one model.

    Observations are expected as the network sees them. With the task, ``env``, they are expected as the task shows them.

    >>> import numpy, spectral_rl
    >>> agent = spectral_rl.SpectralDQN("catch-scale", learning_starts=100, epsilon_frames=300, hidden="16").learn(500)
    >>> policy = spectral_rl.load_policy(agent.run_dir)
    >>> policy
    <Policy of spectral (seed 1) on catch-scale, 500 frames>
    >>> observations = numpy.zeros((5, *policy.observation_shape), numpy.float32)
    >>> policy.q_values(observations).shape, policy.outputs(observations).shape
    ((5, 3), (5, 3, 21))
    >>> policy.actions[policy.act(observations[0], mask=[False, False, True])]
    'right'
    """
    native = _native.Policy.load(os.fspath(path))
    if env is None:
        return Policy(native)
    observations, actions = _spaces_of(env)
    reader = ObservationReader.of_spaces(observations, actions, native.stack)
    if reader.actions != len(native.actions) or reader.length != int(np.prod(native.observation_shape)):
        raise ValueError(
            f"the agent was trained on {native.task}, with observations of shape {native.observation_shape} and "
            f"{len(native.actions)} actions; this task has the spaces {observations} and {actions}"
        )
    return Policy(native, reader)


def _target(path):
    """Where a file is written: what a link points to, and nothing but a file."""
    path = os.path.realpath(os.fsdecode(path))
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"{path} is there already, and is not a file")
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"there is no folder {folder}: make it first")
    return path


def _make(env):
    """An environment from an id or a function."""
    import gymnasium

    return gymnasium.make(env) if isinstance(env, str) else env()


def _spaces_of(env):
    """The spaces of one environment: of an id, an environment, a function that makes one, or a vector environment."""
    if isinstance(env, (str, type)) or not hasattr(env, "reset"):
        env = _make(env)
    if hasattr(env, "single_observation_space"):
        return env.single_observation_space, env.single_action_space
    return env.observation_space, env.action_space
