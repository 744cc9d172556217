"""Observations as policies take them: one row per observation."""

import numpy as np

from spectral_rl import _spaces


class ObservationReader:
    """Turns observations of a space, one or a batch, into rows for the native policy."""

    def __init__(self, kind, shape, start, stack, actions, action_start):
        self.kind, self.shape, self.start, self.stack = kind, tuple(shape), start, stack
        self.actions, self.action_start = actions, action_start

    @classmethod
    def of_spaces(cls, observations, actions, stack):
        """For a task of Gymnasium's."""
        described = _spaces.describe_observations(observations)
        return cls(
            described["observation"],
            described["shape"],
            described["start"],
            stack,
            int(actions.n),
            int(actions.start),
        )

    @property
    def length(self):
        """Numbers in a row."""
        return int(np.prod(self.shape)) * self.stack

    def rows(self, observation, state, episode_start):
        """Rows, whether there was one observation alone, and the new state."""
        if self.kind == "one-hot":
            return self._one_hot(observation)
        array = np.asarray(observation)
        single = array.shape == self.shape
        if not single and array.shape[1:] != self.shape:
            raise ValueError(
                f"the observation has the shape {array.shape}, and the agent expects {self.shape}, or a batch of those"
            )
        batch = array[None] if single else array
        if self.kind in ("image", "image-channels-last"):
            if batch.dtype != np.uint8:
                raise ValueError(f"the observation is of {batch.dtype}, and the agent expects uint8")
            if self.kind == "image-channels-last" and batch.ndim == 4:
                batch = np.moveaxis(batch, 3, 1)
        elif self.kind == "bytes" and batch.dtype == np.uint8:
            batch = batch.astype(np.float32) * np.float32(1 / 255)
        elif not np.issubdtype(batch.dtype, np.number) and batch.dtype != bool:
            raise ValueError(f"the observation is of {batch.dtype}, and the agent expects numbers")
        else:
            batch = batch.astype(np.float32, copy=False)
        rows = np.ascontiguousarray(batch.reshape(len(batch), int(np.prod(self.shape))))
        if self.stack > 1:
            rows, state = self._stacked(rows, state, episode_start)
        return rows, single, state

    def _stacked(self, rows, state, episode_start):
        """The last observations beside one another, the newest last, zeros before the episode's start."""
        count, width = rows.shape
        if state is None or np.shape(state) != (count, width * self.stack):
            state = np.zeros((count, width * self.stack), dtype=rows.dtype)
        state = state.copy()
        if episode_start is not None:
            state[np.broadcast_to(np.asarray(episode_start, dtype=bool), (count,))] = 0
        state[:, :-width] = state[:, width:]
        state[:, -width:] = rows
        return state, state

    def _one_hot(self, observation):
        numbers = np.asarray(observation)
        single = numbers.ndim == 0
        index = np.atleast_1d(numbers).astype(np.int64) - self.start
        if index.ndim != 1 or (index < 0).any() or (index >= self.shape[0]).any():
            raise ValueError(f"the observation {observation!r} is not in the task's space")
        rows = np.zeros((len(index), self.shape[0]), dtype=np.float32)
        rows[np.arange(len(index)), index] = 1.0
        return rows, single, None
