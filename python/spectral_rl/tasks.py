"""Spectral's tasks as Gymnasium environments.

    import gymnasium

    env = gymnasium.make("spectral_rl:Spectral/ExponentialPongMini-v0", observation="planes")
    envs = gymnasium.make_vec("spectral_rl:SpectralAtari/MsPacman-v0", num_envs=32)

``Spectral/…`` are the built-in tasks and the paper's, ``SpectralAtari/…`` the games of the Atari 2600.
The part before the colon may be left out once ``spectral_rl`` has been imported.
Settings of a task are keyword arguments; `SpectralEnv` and `SpectralVectorEnv` say what else there is.
"""

from types import SimpleNamespace

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from spectral_rl import _native
from spectral_rl._roms import find_roms

__all__ = ["SpectralEnv", "SpectralVectorEnv", "register", "task_ids"]

_ENTRY = "spectral_rl.tasks:SpectralEnv"
_VECTOR_ENTRY = "spectral_rl.tasks:SpectralVectorEnv"
_FPS = 60
_SEED_LIMIT = 2**64
_MOST_COPIES = 2**16


def _camel(name):
    """``ponglantis-mini-easier`` as Gymnasium writes names: ``PonglantisMiniEasier``."""
    return "".join(part[:1].upper() + part[1:] for part in name.replace("-", "_").split("_"))


def task_ids():
    """Every id with the name by which Spectral's registry knows the task.

    >>> from spectral_rl.tasks import task_ids
    >>> task_ids()["Spectral/2048-v0"], task_ids()["SpectralAtari/UpNDown-v0"]
    ('2048', 'atari/up_n_down')
    """
    ids = {}
    for name, _ in _native.list_tasks():
        # Gymnasium allows one slash in an id, so the games of the Atari have a namespace of their own.
        space, _, last = name.rpartition("/")
        ids[f"Spectral{_camel(space)}/{_camel(last)}-v0"] = name
    return ids


def native_name(text):
    """The registry's name of a task, from that name or from its id; ``None`` if it is none of Spectral's.

    >>> from spectral_rl.tasks import native_name
    >>> native_name("spectral_rl:Spectral/PongMini-v0"), native_name("pong-mini"), native_name("CartPole-v1")
    ('pong-mini', 'pong-mini', None)
    """
    ids = task_ids()
    name = ids.get(text.removeprefix("spectral_rl:"), text)
    return name if name in ids.values() else None


def gymnasium_id(name):
    """The id of a task of the registry's."""
    return next(env_id for env_id, known in task_ids().items() if known == name)


def register():
    """Registers the tasks with Gymnasium. Importing ``spectral_rl`` does this when Gymnasium is there."""
    for env_id, name in task_ids().items():
        # `gymnasium.register` compares each with all others, which takes longer than everything else here.
        gymnasium.registry[env_id] = EnvSpec(
            id=env_id, entry_point=_ENTRY, vector_entry_point=_VECTOR_ENTRY, kwargs={"task": name}
        )


def _batch(task, settings, **options):
    find_roms()
    return _native.TaskBatch(task, settings, **options)


def _spaces(batch):
    """The spaces of one environment."""
    if batch.observes_bytes:
        seen = gymnasium.spaces.Box(0, 255, tuple(batch.observation_shape), np.uint8)
    else:
        seen = gymnasium.spaces.Box(-np.inf, np.inf, tuple(batch.observation_shape), np.float32)
    return SimpleNamespace(observation=seen, action=gymnasium.spaces.Discrete(len(batch.actions)))


def _check_seed(seed):
    if seed is not None and not 0 <= seed < _SEED_LIMIT:
        raise gymnasium.error.Error(f"the seed is {seed}, and must be from 0 to 2**64 - 1")
    return None if seed is None else int(seed)


def _check_render_mode(render_mode):
    if render_mode not in (None, "rgb_array"):
        raise ValueError(f"render_mode is {render_mode!r}, and must be None or 'rgb_array'")


class _Closed:
    """What stands for the tasks of a vector environment that was closed."""

    def __getattr__(self, name):
        raise gymnasium.error.ClosedEnvironmentError("the environment was closed: make a new one")


class SpectralEnv(gymnasium.Env):
    """One of Spectral's tasks. ``gymnasium.make`` makes it.

    Observations are what a network sees: bytes of shape ``(channels, height, width)``, for Atari the last four screens,
    oldest first, with zeros before the episode began; or a vector of 32-bit numbers.
    Rewards are raw: never clipped, never scaled.

    ``info`` has the plain ``score`` of the step, whether a life was lost (``life_lost``), and the ``player_score`` where the
    task has one.

    >>> import gymnasium
    >>> env = gymnasium.make("spectral_rl:Spectral/2048-v0")
    >>> observation, info = env.reset(seed=1)
    >>> observation, reward, terminated, truncated, info = env.step(0)
    >>> info["score"] == reward
    True

    Args:
        task: The task's name in Spectral's registry, which the id stands for.
        raw: An Atari game without preprocessing: its screen in colour, every frame, as ale-py shows it.
        render_mode: ``None`` or ``"rgb_array"``.
        settings: What can be set about the task: ``observation``, ``reward_scale``, ``frame_skip``; of Atari ``mode``,
            ``difficulty``, ``atari_protocol``; with ``raw`` ``mode``, ``difficulty``, ``frame_skip``,
            ``repeat_action_probability``, ``full_action_space``.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}

    def __init__(self, task, *, raw=False, render_mode=None, **settings):
        _check_render_mode(render_mode)
        self._batch = _batch(task, settings, raw=bool(raw), keywords=["raw", "render_mode", "max_episode_steps"])
        spaces = _spaces(self._batch)
        self.observation_space = spaces.observation
        self.action_space = spaces.action
        self.render_mode = render_mode
        if raw:
            self.metadata = {**self.metadata, "render_fps": _FPS // self._batch.frames_per_step}

    def reset(self, *, seed=None, options=None):
        """Begins an episode. A seed makes the task begin anew: all that follows depends on it and on the actions."""
        _check_seed(seed)
        super().reset(seed=seed)
        return self._batch.reset_one(seed)

    def step(self, action):
        """Plays one action."""
        return self._batch.step_one(action)

    def render(self):
        """A picture of the current state."""
        return self._batch.picture() if self.render_mode else None

    def get_action_meanings(self):
        """One name per action."""
        return self._batch.actions


class SpectralVectorEnv(VectorEnv):
    """Many copies of one of Spectral's tasks, stepped by all cores. ``gymnasium.make_vec`` makes it.

    The interpreter is released while tasks are stepped.
    Results depend on seeds and actions only, not on the number of threads.
    ``info`` is as Gymnasium's own vector environments have it.

    >>> import gymnasium, numpy
    >>> envs = gymnasium.make_vec("spectral_rl:Spectral/PongMini-v0", num_envs=3, autoreset_mode="SameStep")
    >>> observations, infos = envs.reset(seed=1)
    >>> observations, rewards, terminations, truncations, infos = envs.step(numpy.array([0, 1, 2]))
    >>> rewards.shape, infos["score"].shape
    ((3,), (3,))

    Args:
        task: The task's name in Spectral's registry, which the id stands for.
        num_envs: How many copies.
        raw: An Atari game without preprocessing, see `SpectralEnv`.
        render_mode: ``None`` or ``"rgb_array"``.
        autoreset_mode: When a copy whose episode has ended is reset: by the next step (``"NextStep"``, Gymnasium's default),
            by the same one, which then passes ``final_obs`` and ``final_info`` (``"SameStep"``), or by the caller with
            ``reset(options={"reset_mask": ...})`` (``"Disabled"``).
        copy: With ``True``, an array of observations is the caller's for as long as anything refers to it, and its memory is
            used again afterwards. With ``False``, all steps write to the same array.
        threads: How many threads step the copies, the caller's included; all cores if left out.
        max_episode_steps: Steps after which an episode is truncated.
        settings: What can be set about the task, see `SpectralEnv`.
    """

    def __init__(
        self,
        task,
        num_envs=1,
        *,
        raw=False,
        render_mode=None,
        autoreset_mode=AutoresetMode.NEXT_STEP,
        copy=True,
        threads=None,
        max_episode_steps=None,
        **settings,
    ):
        _check_render_mode(render_mode)
        mode = getattr(autoreset_mode, "value", autoreset_mode)
        if num_envs > _MOST_COPIES:
            raise ValueError(f"{num_envs:,} copies are too many: there may be {_MOST_COPIES:,}")
        self._batch = _batch(
            task,
            settings,
            num_envs=num_envs,
            raw=bool(raw),
            autoreset_mode=mode,
            copy=bool(copy),
            threads=threads,
            max_episode_steps=max_episode_steps,
            keywords=["raw", "render_mode", "autoreset_mode", "copy", "threads", "max_episode_steps", "num_envs"],
        )
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(mode)
        fps = _FPS // self._batch.frames_per_step if raw else SpectralEnv.metadata["render_fps"]
        self.metadata = {**SpectralEnv.metadata, "render_fps": fps, "autoreset_mode": self.autoreset_mode}
        spaces = _spaces(self._batch)
        self.single_observation_space = spaces.observation
        self.single_action_space = spaces.action
        self.observation_space = batch_space(spaces.observation, num_envs)
        self.action_space = batch_space(spaces.action, num_envs)

    @property
    def threads(self):
        """How many threads step the copies, the caller's included."""
        return self._batch.threads

    def reset(self, *, seed=None, options=None):
        """Begins an episode of every copy, or of those that ``options["reset_mask"]`` names.

        Copy ``i`` is seeded with ``seed + i``, or with the ``i``-th element of a list, in which ``None`` leaves one unseeded.
        """
        if seed is None:
            seeds = [None] * self.num_envs
        elif isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
            seeds = [int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"there are {len(seeds)} seeds for {self.num_envs} environments")
        mask = None
        if options is not None and "reset_mask" in options:
            mask = _check_mask(options["reset_mask"], self.num_envs)
        return self._batch.reset([_check_seed(one) for one in seeds], mask)

    def step(self, actions):
        """Plays one action in every copy."""
        actions = np.asarray(actions)
        if actions.dtype != np.int64:
            if actions.dtype.kind not in "iu":
                raise TypeError(f"actions are of type {actions.dtype}, and must be whole numbers")
            actions = actions.astype(np.int64)
        return self._batch.step(actions)

    def render(self):
        """A picture of every copy's current state."""
        return tuple(self._batch.picture(i) for i in range(self.num_envs)) if self.render_mode else None

    def get_action_meanings(self):
        """One name per action."""
        return self._batch.actions

    def close_extras(self, **kwargs):
        """Ends the threads."""
        self._batch = _Closed()


def _check_mask(mask, num_envs):
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError(f"options['reset_mask'] must be a NumPy array of bool, and is {type(mask).__name__}")
    if mask.shape != (num_envs,):
        raise ValueError(f"options['reset_mask'] has shape {mask.shape}, and must have ({num_envs},)")
    if not mask.any():
        raise ValueError("options['reset_mask'] names no environment to reset")
    return mask.tolist()
