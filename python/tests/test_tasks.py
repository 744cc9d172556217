"""Spectral's tasks in Gymnasium: ids, settings, single environments, wrappers, ale-py beside."""

import doctest
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from tasks_common import ATARI, BOARDS, BUILT_IN, make, run_python

import spectral_rl.tasks
from spectral_rl.tasks import task_ids

# Ids and registration


def test_ids_follow_from_the_registry():
    ids = task_ids()
    assert ids["Spectral/ExponentialPongMini-v0"] == "exponential-pong-mini"
    assert ids["Spectral/PonglantisMiniEvenEasier-v0"] == "ponglantis-mini-even-easier"
    assert ids["SpectralAtari/MsPacman-v0"] == "atari/ms_pacman"
    assert len(ids) == len(set(ids.values())) > 70
    assert all(env_id in gymnasium.registry for env_id in ids)


@pytest.mark.parametrize("first, second", [("spectral_rl", "gymnasium"), ("gymnasium", "spectral_rl")])
def test_registered_whichever_is_imported_first(first, second):
    make = "print(gymnasium.make('Spectral/2048-v0').spec.id)"
    assert run_python(f"import {first}, {second}; {make}") == "Spectral/2048-v0"


@pytest.mark.parametrize("before", ["import gymnasium", "import spectral_rl; import gymnasium"])
def test_made_with_the_modules_name_in_front(before):
    make = "print(gymnasium.make('spectral_rl:Spectral/2048-v0').spec.id)"
    assert run_python(f"{before}; {make}") == "Spectral/2048-v0"


def test_importing_the_package_imports_neither_gymnasium_nor_numpy():
    look = "print([name for name in ('numpy', 'gymnasium', 'spectral_rl._native') if name in sys.modules])"
    assert run_python(f"import sys, spectral_rl; {look}") == "[]"


def test_gymnasium_imports_nothing_of_ours():
    look = "print([name for name in sys.modules if name.startswith('spectral_rl')])"
    assert run_python(f"import sys, gymnasium; {look}") == "[]"


# Settings


def test_settings_are_keyword_arguments():
    env = gymnasium.make("Spectral/PongMini-v0", observation="planes", frame_skip=2)
    assert env.observation_space.dtype == np.uint8 and len(env.observation_space.shape) == 3
    pixels = gymnasium.make("Spectral/PongMini-v0", observation="pixels")
    assert pixels.observation_space.shape == (4, 84, 84)
    scaled = gymnasium.make("Spectral/CatchScale-v0", reward_scale=np.float64(1e6))
    scaled.reset(seed=1)
    rewards = {scaled.step(0)[1] for _ in range(9)}
    assert rewards <= {0.0, 1e6, -1e6} and len(rewards) == 2


@pytest.mark.parametrize(
    "env_id, settings, error, said",
    [
        ("Spectral/2048-v0", {"observatoin": "planes"}, TypeError, "'observation'"),
        ("Spectral/2048-v0", {"zzz": 1}, TypeError, "observation, reward_scale, frame_skip"),
        ("Spectral/2048-v0", {"observation": "plane"}, ValueError, "auto | vector | planes | pixels"),
        ("Spectral/2048-v0", {"frame_skip": 0}, ValueError, "from 1 to 60"),
        ("Spectral/Investor-v0", {"observation": "planes"}, ValueError, "it supports vector"),
        ("Spectral/2048-v0", {"raw": True}, ValueError, "SpectralAtari/Pong-v0"),
        ("SpectralAtari/Pong-v0", {"mode": 7}, ValueError, "one of 0, 1"),
        ("SpectralAtari/Pong-v0", {"raw": True, "atari_protocol": "paper"}, TypeError, "with raw=True has no setting"),
        ("Spectral/2048-v0", {"render_mode": "ansi"}, ValueError, "'rgb_array'"),
    ],
)
def test_wrong_settings_say_what_would_be_right(env_id, settings, error, said):
    with warnings.catch_warnings(), pytest.raises(error) as caught:
        warnings.simplefilter("ignore")
        gymnasium.make(env_id, **settings)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"thread": 2}, "'threads'"),
        ({"threads": 0}, "all cores"),
        ({"autoreset_mode": "Never"}, "NextStep, SameStep or Disabled"),
        ({"max_episode_steps": 0}, "at least 1"),
    ],
)
def test_wrong_arguments_of_vector_environments(settings, said):
    with pytest.raises((TypeError, ValueError)) as caught:
        gymnasium.make_vec("Spectral/2048-v0", num_envs=2, **settings)
    assert said in str(caught.value)


def test_modes_and_protocols_of_atari():
    assert make("SpectralAtari/Pong-v0").action_space.n == 6
    assert make("SpectralAtari/Pong-v0", atari_protocol="machado", mode=1, difficulty=3).action_space.n == 18
    full = make("SpectralAtari/Pong-v0", raw=True, full_action_space=True)
    assert full.unwrapped.get_action_meanings()[0].lower() == "noop" and full.action_space.n == 18


# Single environments


def check(env_id, **settings):
    env = make(env_id, render_mode="rgb_array", **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The bounds of a vector's numbers are not known, which the checker finds worth a warning.
        warnings.filterwarnings("ignore", message=".*infinity.*")
        check_env(env.unwrapped)


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_built_in_tasks_pass_gymnasiums_checker(env_id):
    check(env_id)


@pytest.mark.parametrize("observation", ["planes", "pixels"])
@pytest.mark.parametrize("env_id", BOARDS)
def test_built_in_tasks_pass_gymnasiums_checker_in_other_views(env_id, observation):
    check(env_id, observation=observation, frame_skip=2)


@pytest.mark.parametrize("env_id", ATARI)
def test_atari_tasks_pass_gymnasiums_checker(env_id):
    check(env_id)


@pytest.mark.parametrize("env_id", ["SpectralAtari/Pong-v0", "SpectralAtari/AirRaid-v0"])
def test_raw_atari_passes_gymnasiums_checker(env_id):
    check(env_id, raw=True)


@pytest.mark.parametrize("env_id", list(task_ids()))
def test_every_task_can_be_made_and_played(env_id):
    env = make(env_id)
    env.reset(seed=1)
    for _ in range(3):
        observation, reward, terminated, truncated, info = env.step(env.action_space.n - 1)
        assert env.observation_space.contains(observation) and type(reward) is float
        assert not truncated and type(terminated) is bool and {"score", "life_lost"} <= info.keys()


def test_rewards_are_raw_and_scores_plain():
    env = gymnasium.make("Spectral/ExponentialPongMini-v0")
    env.reset(seed=3)
    rng = np.random.default_rng(3)
    largest, score, over = 0.0, 0, False
    while not over:
        _, reward, terminated, truncated, info = env.step(rng.integers(3))
        assert (abs(reward) >= 1) == (abs(info["score"]) == 1) and np.sign(reward) == np.sign(info["score"])
        largest, score, over = max(largest, abs(reward)), score + info["score"], terminated or truncated
    assert largest > 1 and -21 <= score <= 21 and terminated


def test_stacks_begin_with_zeros_and_move_up():
    env = make("SpectralAtari/Pong-v0")
    first, _ = env.reset(seed=1)
    assert not first[:3].any() and first[3].any()
    second = env.step(0)[0]
    assert not second[:2].any()
    np.testing.assert_array_equal(second[2], first[3])
    for _ in range(3):
        third = env.step(2)[0]
        np.testing.assert_array_equal(third[:3], second[1:])
        second = third


def test_a_seed_makes_an_atari_console_begin_anew():
    env = make("SpectralAtari/MsPacman-v0")

    def play():
        seen = [env.reset(seed=5)[0]]
        return seen + [env.step(action % 9)[0] for action in range(200)]

    for one, other in zip(play(), play()):
        np.testing.assert_array_equal(one, other)


def test_lost_lives_are_told():
    env = make("SpectralAtari/Breakout-v0")
    env.reset(seed=1)
    lost, terminated = 0, False
    while not terminated:
        terminated, _, info = env.step(1)[2:]
        lost += info["life_lost"]
    assert lost == 4, "the fifth ends the game"


def test_steps_need_a_reset():
    env = gymnasium.make("Spectral/CatchScale-v0").unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=1)
    while not env.step(0)[2]:
        pass
    with pytest.raises(gymnasium.error.ResetNeeded, match="over"):
        env.step(0)
    env.reset()
    env.step(0)


@pytest.mark.parametrize("action", [-1, 4, 10**6])
def test_actions_that_do_not_exist_are_refused(action):
    env = gymnasium.make("Spectral/2048-v0").unwrapped
    env.reset(seed=1)
    with pytest.raises(ValueError, match="actions 0 to 3"):
        env.step(action)


def test_bad_seeds_are_refused():
    for seed in (-1, 2**64):
        with pytest.raises(gymnasium.error.Error):
            gymnasium.make("Spectral/2048-v0").unwrapped.reset(seed=seed)


def test_pictures():
    env = gymnasium.make("Spectral/2048-v0", render_mode="rgb_array")
    env.reset(seed=1)
    picture = env.render()
    assert picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3 and picture.any()
    assert gymnasium.make("Spectral/2048-v0").unwrapped.render() is None
    envs = gymnasium.make_vec("Spectral/2048-v0", num_envs=2, render_mode="rgb_array")
    envs.reset(seed=1)
    pictures = envs.render()
    assert len(pictures) == 2
    np.testing.assert_array_equal(pictures[0], picture)


# With Gymnasium's wrappers


def test_gymnasiums_wrappers():
    env = gymnasium.make("Spectral/CatchScale-v0", observation="planes", max_episode_steps=5)
    env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.FrameStackObservation(env, 3))
    env = gymnasium.wrappers.ClipReward(env, -1, 1)
    env.reset(seed=1)
    for _ in range(5):
        _, _, terminated, truncated, info = env.step(0)
    assert truncated and not terminated and info["episode"]["l"] == 5
    grey = gymnasium.wrappers.GrayscaleObservation(make("SpectralAtari/Pong-v0", raw=True))
    assert grey.reset(seed=1)[0].shape == (210, 160)


def test_gymnasiums_vector_wrappers():
    envs = gymnasium.make_vec("Spectral/CatchScale-v0", num_envs=3)
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    envs = gymnasium.wrappers.vector.ClipReward(envs, -1, 1)
    envs.reset(seed=1)
    told = 0
    for _ in range(40):
        *_, infos = envs.step(np.zeros(3, dtype=np.int64))
        told += infos.get("_episode", np.zeros(3)).sum()
    assert told >= 9
    listed = gymnasium.wrappers.vector.DictInfoToList(gymnasium.make_vec("Spectral/CatchScale-v0", num_envs=2))
    listed.reset(seed=1)
    assert [info["score"] for info in listed.step(np.zeros(2, dtype=np.int64))[-1]] == [0.0, 0.0]


def test_async_vector_environments():
    envs = gymnasium.make_vec("Spectral/2048-v0", num_envs=2, vectorization_mode="async")
    ours = gymnasium.make_vec("Spectral/2048-v0", num_envs=2)
    np.testing.assert_array_equal(envs.reset(seed=1)[0], ours.reset(seed=1)[0])
    envs.close()


# Atari beside ale-py


@pytest.mark.parametrize("game", ["pong", "breakout", "ms_pacman", "air_raid", "carnival", "video_pinball"])
def test_raw_screens_equal_those_of_ale_py(game):
    ale_py = pytest.importorskip("ale_py", reason="SKIPPED: no ale-py: pip install ale-py")
    env_id = next(env_id for env_id, name in task_ids().items() if name == f"atari/{game}")
    ours = make(env_id, raw=True, max_episode_steps=-1)
    theirs = ale_py.AtariEnv(
        game, frameskip=1, repeat_action_probability=0.0, max_num_frames_per_episode=108_000
    )
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    for episode in range(2):
        seed = {"seed": 1} if episode == 0 else {}
        np.testing.assert_array_equal(ours.reset(**seed)[0], theirs.reset(**seed)[0])
        rng = np.random.default_rng(1)
        for step in range(1500):
            if step % 4 == 0:  # Held for a while, so that something happens in the game.
                action = int(rng.integers(ours.action_space.n))
            one, other = ours.step(action), theirs.step(action)
            np.testing.assert_array_equal(one[0], other[0], err_msg=f"{game} step {step}")
            assert one[1:4] == other[1:4]
            if one[2]:
                break


def test_roms_of_ale_py_are_found(tmp_path):
    pytest.importorskip("ale_py", reason="SKIPPED: no ale-py: pip install ale-py")
    make = "import gymnasium; print(gymnasium.make('spectral_rl:SpectralAtari/Pong-v0').spec.id)"
    assert run_python(make, SPECTRAL_ROMS=str(tmp_path)) == "SpectralAtari/Pong-v0"


def test_a_wrong_rom_of_the_users_is_refused(tmp_path):
    (tmp_path / "pong.bin").write_bytes(b"not a game")
    make = "import gymnasium, spectral_rl\ntry: gymnasium.make('SpectralAtari/Pong-v0')\n"
    make += "except FileNotFoundError as error: print(error)"
    assert "is not the ROM of Pong" in run_python(make, SPECTRAL_ROMS=str(tmp_path))


def test_a_missing_rom_says_what_to_do(tmp_path):
    hide = "import sys; sys.modules['ale_py'] = None; import gymnasium, spectral_rl.tasks\n"
    hide += "try: gymnasium.make('SpectralAtari/Pong-v0')\n"
    hide += "except FileNotFoundError as error: print(error)"
    assert "pip install spectral-rl[atari]" in run_python(hide, SPECTRAL_ROMS=str(tmp_path))


def test_examples_in_the_documentation_of_the_module():
    assert doctest.testmod(spectral_rl.tasks).failed == 0
