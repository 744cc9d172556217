"""Gymnasium environments as the native module takes them: what they show, what can be done, how they are made."""

import json
import math
import re
import time
import warnings

import gymnasium
import numpy as np
from gymnasium import spaces

from spectral_rl import _native, tasks
from spectral_rl._roms import find_roms

_MOST_ACTIONS = 256
_LONGEST_OBSERVATION = 2**22


def _image_layout(shape):
    """How an image of bytes is laid out: the shortest axis is the channels', as in Stable-Baselines3."""
    if len(shape) == 2:
        return "image"
    shortest = min(shape)
    if shape[0] == shortest:
        return "image"
    return "image-channels-last" if shape[2] == shortest else None


def describe_observations(space):
    """A space as the keyword arguments of ``GymTask``, or a ``ValueError`` that says what to wrap."""
    kind, shape, start = None, [], 0
    if isinstance(space, spaces.Box):
        shape = list(space.shape)
        if space.dtype == np.uint8 and len(shape) in (2, 3):
            kind = _image_layout(shape)
            if kind is None:
                raise ValueError(
                    f"observations of shape {tuple(shape)} are no image that is understood: the channels must be the first "
                    "or the last axis (gymnasium.wrappers.TransformObservation can move them)"
                )
        elif len(shape) > 3 and space.dtype == np.uint8:
            raise ValueError(
                f"observations of shape {tuple(shape)} have too many axes: wrap the task in "
                "gymnasium.wrappers.GrayscaleObservation before stacking frames"
            )
        else:
            kind = "bytes" if space.dtype == np.uint8 else "numbers"
    elif isinstance(space, spaces.Discrete):
        kind, shape, start = "one-hot", [int(space.n)], int(space.start)
    elif isinstance(space, spaces.MultiBinary):
        kind, shape = "numbers", list(space.shape)
    if kind is None:
        raise ValueError(
            f"observations of the space {space} cannot be learned from: Box, Discrete and MultiBinary can; wrap the task in "
            "gymnasium.wrappers.FlattenObservation"
        )
    length = math.prod(shape)
    if not 0 < length <= _LONGEST_OBSERVATION:
        raise ValueError(
            f"observations of the space {space} have {length:,} elements, and may have 1 to {_LONGEST_OBSERVATION:,}"
        )
    return {"observation": kind, "shape": shape, "start": start}


def describe_actions(space):
    """The names of the actions and the number of the first, or a ``ValueError`` that says what to wrap."""
    if not isinstance(space, spaces.Discrete):
        raise ValueError(
            f"actions of the space {space} cannot be played: DQN chooses among the actions of a Discrete space; wrap the task "
            "in gymnasium.wrappers.TransformAction, with one number for each choice"
        )
    if space.n > _MOST_ACTIONS:
        raise ValueError(f"{space.n} actions are too many: there may be {_MOST_ACTIONS} at most")
    return [str(space.start + i) for i in range(int(space.n))], int(space.start)


def task_name(env):
    """A name for files and reports: the environment's id, or else its class."""
    spec = getattr(env, "spec", None)
    name = spec.id if spec is not None else type(env.unwrapped).__name__
    return "gymnasium/" + (re.sub(r"[^A-Za-z0-9_/-]+", "-", name).strip("-/") or "task")[:80]


def _mask_in(info):
    return isinstance(info, dict) and "action_mask" in info


def _play(env, seed, steps, deadline):
    """What an episode from this seed shows, as bytes."""
    observation, info = env.reset(seed=seed)
    seen = [np.asarray(observation).tobytes()]
    rng = np.random.default_rng(seed)
    masks = _mask_in(info)
    for _ in range(steps):
        space = env.action_space
        legal = np.flatnonzero(info["action_mask"]) if _mask_in(info) else np.arange(space.n)
        if time.monotonic() > deadline or len(legal) == 0:
            break
        observation, reward, terminated, truncated, info = env.step(int(space.start + rng.choice(legal)))
        # As bytes, because a reward that is not a number is not equal to itself.
        paid = np.float64(reward).tobytes()
        seen.append((np.asarray(observation).tobytes(), paid, bool(terminated), bool(truncated)))
        if terminated or truncated:
            break
        if masks and not _mask_in(info):
            raise ValueError(
                'the task has "action_mask" in the info of its reset and not in that of a step: it must be in both, or legal '
                "actions would be forgotten after the first step"
            )
    return seen, masks


def examine(env, steps=25, seconds=1.0):
    """Plays a few steps from the same seed twice: are they the same, and does the task say which actions are legal?"""
    deadline = time.monotonic() + seconds
    first, masks = _play(env, 20_260, steps, deadline)
    # The second must not end earlier than the first just because time is up.
    second, _ = _play(env, 20_260, len(first) - 1, deadline + 3600)
    return first == second, masks


def _vector_name(env):
    """The name of the task that a vector environment has several of."""
    if getattr(env, "spec", None) is None and getattr(env, "envs", None):
        return task_name(env.envs[0])
    return task_name(env)


def _vector_task(env, stack, name=None):
    if not hasattr(env, "single_observation_space"):
        raise ValueError("a vector environment must be one of Gymnasium's (gymnasium.vector.VectorEnv)")
    mode = str(getattr(env.metadata.get("autoreset_mode"), "value", env.metadata.get("autoreset_mode")))
    modes = {"NextStep": "next_step", "SameStep": "same_step", "Disabled": "disabled"}
    if mode not in modes:
        raise ValueError(
            f"the vector environment does not say how it resets itself (metadata['autoreset_mode'] is {mode}): it must be one "
            "of gymnasium.vector.AutoresetMode"
        )
    _, infos = env.reset(seed=20_260)
    actions, action_start = describe_actions(env.single_action_space)
    return _native.GymTask(
        name=name or _vector_name(env),
        **describe_observations(env.single_observation_space),
        stack=stack,
        actions=actions,
        action_start=action_start,
        masks_actions=_mask_in(infos),
        reproducible=False,
        vector=env,
        autoreset=modes[mode],
    )


def make_task(env, *, env_kwargs=None, stack=1, vectorize=None, agents=1, reproducible=None):
    """A native task from whatever the user has: an id, an environment, a function that makes one, a vector environment.

    Returns the task (or the name of one of Spectral's own), the observation space, the action space and settings.
    """
    env_kwargs = dict(env_kwargs or {})
    settings = {}
    if isinstance(env, str):
        name = tasks.native_name(env)
        if name is not None:
            find_roms()
            return name, None, None, {key: str(value) for key, value in env_kwargs.items()}
        env_id = env

        def make():
            return gymnasium.make(env_id, **env_kwargs)

        if env_kwargs:
            settings["env_kwargs"] = json.dumps(env_kwargs, sort_keys=True, default=repr)
    elif isinstance(env, gymnasium.vector.VectorEnv):
        task = _vector_task(env, stack)
        return task, env.single_observation_space, env.single_action_space, settings
    elif isinstance(env, gymnasium.Env):
        make = None
    elif callable(env):
        factory = env

        def make():
            return factory(**env_kwargs)

    elif hasattr(env, "num_envs") and hasattr(env, "step_async"):
        raise ValueError(
            "this is a vector environment of Stable-Baselines3: pass an id, a function that makes a Gymnasium environment, or "
            "one of gymnasium.vector's"
        )
    else:
        raise ValueError(
            f"{env!r} is no environment: pass a Gymnasium id, an environment, a function that makes one, or a vector environment"
        )
    if vectorize not in (None, "sync", "async"):
        raise ValueError(f"vectorize is {vectorize!r}: it can be None, 'sync' or 'async'")
    if vectorize is not None:
        if make is None:
            raise ValueError("vectorize needs an id or a function that makes an environment, not a single environment")
        cls = gymnasium.vector.AsyncVectorEnv if vectorize == "async" else gymnasium.vector.SyncVectorEnv
        mode = gymnasium.vector.AutoresetMode.DISABLED
        one = make()
        name = task_name(one)
        one.close()
        vector = cls([make] * agents, autoreset_mode=mode)
        task = _vector_task(vector, stack, name)
        return task, vector.single_observation_space, vector.single_action_space, settings
    instance = env if make is None else make()
    if not isinstance(instance, gymnasium.Env):
        raise ValueError(f"the function made {instance!r}, which is no Gymnasium environment")
    described = describe_observations(instance.observation_space)
    actions, action_start = describe_actions(instance.action_space)
    same, masks = examine(instance)
    if reproducible is None:
        reproducible = same
        if not same:
            warnings.warn(
                f"{task_name(instance)} gave different episodes for the same seed and actions: everything works, but a run that "
                "is resumed goes on at the start of an episode, and two runs with one seed differ",
                stacklevel=6,
            )
    task = _native.GymTask(
        name=task_name(instance),
        **described,
        stack=stack,
        actions=actions,
        action_start=action_start,
        masks_actions=masks,
        reproducible=bool(reproducible),
        make=make,
        instances=[instance],
    )
    return task, instance.observation_space, instance.action_space, settings
