"""What the tests of tasks share."""

import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from spectral_rl.tasks import task_ids

BUILT_IN = [env_id for env_id in task_ids() if "Mini" in env_id]
BUILT_IN += ["Spectral/2048-v0", "Spectral/Investor-v0", "Spectral/CatchScale-v0"]
BOARDS = [env_id for env_id in BUILT_IN if "Investor" not in env_id]
# Paddles and joysticks, European television, pictures of other heights, lives, composed games.
ATARI = [
    "SpectralAtari/Pong-v0",
    "SpectralAtari/Breakout-v0",
    "SpectralAtari/MsPacman-v0",
    "SpectralAtari/AirRaid-v0",
    "SpectralAtari/Carnival-v0",
    "Spectral/ExponentialPong-v0",
    "Spectral/Ponglantis-v0",
    "Spectral/ReversePonglantis-v0",
]
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


def make(env_id, **settings):
    """An environment, or a loud skip where there are no ROMs."""
    try:
        return gymnasium.make(env_id, **settings)
    except FileNotFoundError as error:
        pytest.skip(f"NO ROMS: {error}")


def make_vec(env_id, num_envs, **settings):
    try:
        return gymnasium.make_vec(env_id, num_envs=num_envs, **settings)
    except FileNotFoundError as error:
        pytest.skip(f"NO ROMS: {error}")


def assert_same(ours, theirs, where=""):
    """Equal values of equal types, all the way down."""
    assert type(ours) is type(theirs), (where, type(ours), type(theirs))
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys(), where
        for key in ours:
            assert_same(ours[key], theirs[key], f"{where}[{key}]")
    elif isinstance(ours, tuple):
        assert len(ours) == len(theirs), where
        for number, (one, other) in enumerate(zip(ours, theirs)):
            assert_same(one, other, f"{where}({number})")
    elif isinstance(ours, np.ndarray) and ours.dtype == object:
        assert ours.shape == theirs.shape, where
        for number, (one, other) in enumerate(zip(ours, theirs)):
            assert_same(one, other, f"{where}[{number}]")
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, (where, ours.dtype, theirs.dtype)
        np.testing.assert_array_equal(ours, theirs, err_msg=where)
    else:
        assert ours == theirs, where


def run_python(program, **environment):
    """What a fresh interpreter prints."""
    out = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert out.returncode == 0, out.stderr
    return out.stdout.strip()
