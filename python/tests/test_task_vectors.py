"""Spectral's vector environment beside Gymnasium's own, which steps single ones."""

import multiprocessing
import os
import threading
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from tasks_common import BUILT_IN, MODES, assert_same, make_vec

import spectral_rl.tasks



def compare(env_id, num_envs, mode, steps, threads=None, **settings):
    """Our vector environment beside Gymnasium's own over single ones: everything is equal at every step."""
    ours = make_vec(env_id, num_envs, autoreset_mode=mode, threads=threads, **settings)
    theirs = make_vec(
        env_id, num_envs, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **settings
    )
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    assert ours.metadata["autoreset_mode"] is mode
    rng = np.random.default_rng(1)
    seeds = [int(seed) for seed in rng.integers(0, 2**62, num_envs)]
    assert_same(ours.reset(seed=seeds), theirs.reset(seed=seeds), "reset")
    ended = 0
    for step in range(steps):
        actions = rng.integers(0, ours.single_action_space.n, num_envs)
        one, other = ours.step(actions), theirs.step(actions)
        assert_same(one, other, f"step {step} ")
        over = one[2] | one[3]
        ended += over.sum()
        if mode == AutoresetMode.DISABLED and over.any():
            assert_same(
                ours.reset(options={"reset_mask": over.copy()}),
                theirs.reset(options={"reset_mask": over.copy()}),
                f"reset after {step} ",
            )
    assert_same(ours.reset(seed=7), theirs.reset(seed=7), "reset again")
    assert_same(ours.reset(), theirs.reset(), "reset without a seed")
    assert ended > 0, "nothing was tested about ends"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env_id", BUILT_IN)
def test_vector_of_built_in_tasks_equals_single_ones(env_id, mode):
    compare(env_id, 5, mode, 150, threads=3, max_episode_steps=40)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("settings", [{"observation": "planes"}, {"observation": "pixels", "frame_skip": 3}])
def test_vector_of_other_views_equals_single_ones(settings, mode):
    compare("Spectral/CatchScale-v0", 4, mode, 60, **settings)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "env_id, settings",
    [
        ("SpectralAtari/Pong-v0", {}),
        ("SpectralAtari/Breakout-v0", {"atari_protocol": "machado"}),
        ("Spectral/ReversePonglantis-v0", {}),
        ("SpectralAtari/MsPacman-v0", {"raw": True, "repeat_action_probability": 0.25, "frame_skip": 2}),
    ],
)
def test_vector_of_atari_tasks_equals_single_ones(env_id, settings, mode):
    compare(env_id, 3, mode, 100, threads=2, max_episode_steps=30, **settings)


def test_make_vec_makes_ours_unless_told_otherwise():
    assert type(gymnasium.make_vec("Spectral/2048-v0", num_envs=2)) is spectral_rl.tasks.SpectralVectorEnv
    same = gymnasium.make_vec("Spectral/2048-v0", num_envs=2, vectorization_mode="vector_entry_point")
    assert type(same) is spectral_rl.tasks.SpectralVectorEnv
    again = gymnasium.make_vec(same.spec)
    assert type(again) is type(same) and again.num_envs == 2


@pytest.mark.parametrize("threads", [1, 2, 5, 16])
def test_results_do_not_depend_on_threads(threads):
    def play(threads):
        envs = gymnasium.make_vec("Spectral/PongMini-v0", num_envs=33, threads=threads, observation="pixels")
        assert envs.threads == threads
        rng = np.random.default_rng(2)
        seen = [envs.reset(seed=1)]
        seen += [envs.step(rng.integers(0, 3, 33)) for _ in range(60)]
        return tuple(seen)

    assert_same(play(threads), play(3))


def test_seeds_of_a_vector():
    envs = gymnasium.make_vec("Spectral/2048-v0", num_envs=3)
    by_number, _ = envs.reset(seed=5)
    by_list, _ = envs.reset(seed=[5, 6, 7])
    np.testing.assert_array_equal(by_number, by_list)
    unlike = {envs.reset(seed=None)[0].tobytes() for _ in range(5)}
    assert len(unlike) > 1
    partly, _ = envs.reset(seed=[5, None, 7])
    np.testing.assert_array_equal(partly[[0, 2]], by_list[[0, 2]])
    with pytest.raises(ValueError, match="2 seeds for 3"):
        envs.reset(seed=[1, 2])
    two = [gymnasium.make_vec("Spectral/2048-v0", num_envs=8).reset()[0].tobytes() for _ in range(2)]
    assert two[0] != two[1], "without a seed, chance is the system's"


def test_wrong_masks_and_actions():
    envs = gymnasium.make_vec("Spectral/CatchScale-v0", num_envs=2, autoreset_mode="Disabled")
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.array([0, 0]))
    with pytest.raises(gymnasium.error.ResetNeeded, match="first reset is of all"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset(seed=1)
    for mask, error in [
        ([True, False], TypeError),
        (np.array([1, 0]), TypeError),
        (np.array([True]), ValueError),
        (np.array([False, False]), ValueError),
    ]:
        with pytest.raises(error, match="reset_mask"):
            envs.reset(options={"reset_mask": mask})
    for actions, error in [
        (np.array([0]), ValueError),
        (np.array([0, 3]), ValueError),
        (np.array([0.0, 1.0]), TypeError),
        (np.array([[0, 1]]), TypeError),
    ]:
        with pytest.raises(error):
            envs.step(actions)
    for actions in (np.array([0, 1], dtype=np.uint8), [0, 1], (1, 0), np.arange(4)[::2] // 2):
        envs.step(actions)
    while not envs.step(np.array([0, 0]))[2].any():
        pass
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset_mask"):
        envs.step(np.array([0, 0]))


def test_observations_are_the_callers_for_as_long_as_he_holds_them():
    envs = gymnasium.make_vec("Spectral/PongMini-v0", num_envs=3, observation="pixels")
    rng = np.random.default_rng(0)
    held = [envs.reset(seed=1)[0]]
    copies = [held[0].copy()]
    views = []
    for _ in range(20):
        seen = envs.step(rng.integers(0, 3, 3))[0]
        held.append(seen)
        copies.append(seen.copy())
        views.append(envs.step(rng.integers(0, 3, 3))[0][1:, 0])
        copies.append(views[-1].copy())
        held.append(views[-1])
    for one, other in zip(held, copies):
        np.testing.assert_array_equal(one, other)
    del held, views, seen
    addresses = set()
    for _ in range(20):
        seen = envs.step(rng.integers(0, 3, 3))[0]
        addresses.add(seen.ctypes.data)
    assert len(addresses) <= 4, "what nobody holds is used again"


def test_arrays_that_were_tampered_with_are_not_used_again():
    envs = gymnasium.make_vec("Spectral/PongMini-v0", num_envs=2)
    for _ in range(3):
        seen, _ = envs.reset(seed=1)
        seen.flags.writeable = False
        seen, _ = envs.reset(seed=1)
        seen.shape = (4, -1)
        seen, _ = envs.reset(seed=1)
        assert seen.shape == (2, 32) and seen.flags.writeable


def test_without_copies_all_steps_write_to_the_same_array():
    envs = gymnasium.make_vec("Spectral/2048-v0", num_envs=2, copy=False)
    first, _ = envs.reset(seed=1)
    assert envs.step(np.array([0, 1]))[0] is first


def test_several_python_threads_and_forked_processes():
    def play(envs, out):
        rng = np.random.default_rng(4)
        out.append(envs.reset(seed=3)[0])
        for _ in range(100):
            out.append(envs.step(rng.integers(0, 3, 8))[0].copy())

    batches = [
        gymnasium.make_vec("Spectral/PongMini-v0", num_envs=8, threads=2, observation="pixels") for _ in range(3)
    ]
    results = [[] for _ in batches]
    threads = [threading.Thread(target=play, args=pair) for pair in zip(batches, results)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in results[1:]:
        for one, two in zip(results[0], other):
            np.testing.assert_array_equal(one, two)
    if "fork" in multiprocessing.get_all_start_methods():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            again = []
            play(batches[0], again)
            same = all((one == two).all() for one, two in zip(again, results[0]))
            os._exit(0 if same else 1)
        assert os.waitpid(child, 0)[1] == 0, "threads are not inherited, and nobody waits for them"


def test_closed_environments_say_so():
    envs = gymnasium.make_vec("Spectral/2048-v0", num_envs=2)
    envs.reset(seed=1)
    envs.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        envs.step(np.array([0, 0]))
