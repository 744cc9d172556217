"""Small tasks for tests."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env):
    """A random walk on a line with a prize at its right end: learned in a few thousand steps."""

    def __init__(self, length=6, mask=False, start=0, dtype=np.float32):
        self.length, self.mask, self.dtype = length, mask, dtype
        self.observation_space = spaces.Box(0.0, 1.0, (length,), np.float32)
        self.action_space = spaces.Discrete(2, start=start)

    def _seen(self):
        seen = np.zeros(self.length, dtype=self.dtype)
        seen[self.at] = 1.0
        return seen

    def _info(self):
        # At the left end there is no way further left.
        return {"action_mask": np.array([self.at > 0, True])} if self.mask else {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = int(self.np_random.integers(0, 2)), 0
        return self._seen(), self._info()

    def step(self, action):
        assert self.action_space.contains(action)
        action -= self.action_space.start
        if self.mask:
            assert action == 1 or self.at > 0, "an illegal action"
        slips = self.np_random.random() < 0.1
        self.at = max(self.at + (1 if bool(action) != slips else -1), 0)
        self.steps += 1
        done = self.at >= self.length - 1
        self.at = min(self.at, self.length - 1)
        return self._seen(), 1000.0 if done else -0.01, done, self.steps >= 40, self._info()


class Glow(gymnasium.Env):
    """A bright square in one half of an image: say which. With ``channels_last`` or not."""

    def __init__(self, shape=(3, 12, 12)):
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Discrete(2)
        self.shape = shape

    def _seen(self):
        image = np.zeros(self.shape, np.uint8)
        half = slice(0, 6) if self.left else slice(6, 12)
        if len(self.shape) == 2:
            image[:, half] = 255
        elif self.shape[-1] == 12:
            image[:, :, half] = 255
        else:
            image[:, half] = 255
        return image

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left, self.steps = bool(self.np_random.integers(2)), 0
        return self._seen(), {}

    def step(self, action):
        reward = 1.0 if (action == 0) == self.left else 0.0
        self.left, self.steps = bool(self.np_random.integers(2)), self.steps + 1
        return self._seen(), reward, False, self.steps == 10, {}


class Trouble(Walk):
    """A walk with something wrong in its 500th step of all."""

    def __init__(self, what, at=500):
        super().__init__()
        self.what, self.count, self.trouble_at = what, 0, at

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        self.count += 1
        if self.count == self.trouble_at:
            if self.what == "raise":
                raise ZeroDivisionError("the task is broken")
            if self.what == "interrupt":
                raise KeyboardInterrupt
            if self.what == "nan reward":
                reward = float("nan")
            if self.what == "text reward":
                reward = "much"
            if self.what == "nan observation":
                observation = observation * np.nan
            if self.what == "shape":
                observation = observation[:-1]
            if self.what == "four values":
                return observation, reward, terminated, info
            if self.what == "text observation":
                observation = "here"
        return observation, reward, terminated, truncated, info


class Unseeded(Walk):
    """A walk whose chance nobody controls."""

    def reset(self, *, seed=None, options=None):
        result = super().reset()
        return result
