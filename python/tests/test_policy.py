"""Frozen agents: values and actions of batches."""

import os
import shutil
import threading

import numpy as np
import pytest

import spectral_rl
from run_fixtures import catch_run, observations, pixels_model, read_model, shake, write_model  # noqa: F401
from spectral_rl import Policy, load_policy


@pytest.fixture
def policy(catch_run, tmp_path):
    return load_policy(shake(catch_run / "agents" / "spectral-s1" / "model.safetensors", tmp_path / "shaken.safetensors"))


def test_what_it_says_of_itself(catch_run):
    policy = load_policy(catch_run / "agents" / "spectral-s2")
    assert (policy.agent, policy.codec, policy.task, policy.seed, policy.frames) == (
        "spectral", "spectral", "catch-scale", 2, 3000,
    )
    assert policy.observation_kind == "vector" and policy.stack == 1
    assert len(policy.observation_shape) == 1
    assert policy.actions == ["left", "stay", "right"]
    assert policy.frequencies == 21
    assert policy.weights.tolist() == [2.0**i for i in range(21)]
    assert "spectral" in repr(policy)
    popart = load_policy(catch_run / "agents" / "popart-s1")
    assert popart.frequencies is None and popart.weights is None


def test_values_outputs_and_actions_agree(policy):
    batch = observations(policy, 100)
    values, outputs, actions = policy.q_values(batch), policy.outputs(batch), policy.act(batch)
    assert (values.shape, values.dtype) == ((100, 3), np.float32)
    assert (outputs.shape, outputs.dtype) == ((100, 3, 21), np.float32)
    assert (actions.shape, actions.dtype) == ((100,), np.int64)
    assert np.array_equal(actions, values.argmax(1))
    assert len(np.unique(actions)) > 1
    bound = np.float32(1 / (1 - float(read_model_discount(policy))))
    expected = (outputs.clip(-bound, bound).astype(np.float64) * policy.weights).sum(2)
    assert np.allclose(values, expected, rtol=1e-6, atol=0)


def read_model_discount(policy):
    """The discount is in the file that a policy saves."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        policy.save(path)
        return read_model(path)[0]["discount"]


def test_rows_do_not_depend_on_their_batch(policy):
    batch = observations(policy, 77)
    whole = policy.q_values(batch)
    for size in (1, 2, 31, 32, 33):
        parts = [policy.q_values(batch[i : i + size]) for i in range(0, 77, size)]
        assert np.array_equal(np.concatenate(parts), whole)


def test_a_single_observation_has_no_batch_axis(policy, pixels_model):
    for one in (policy, load_policy(pixels_model)):
        batch = observations(one, 3)
        assert np.array_equal(one.q_values(batch[1]), one.q_values(batch)[1])
        assert one.outputs(batch[1]).shape == one.outputs(batch).shape[1:]
        action = one.act(batch[1])
        assert type(action) is int and action == one.act(batch)[1]
        assert type(one.act(batch[1], mask=[False, True, False])) is int


def test_masks(policy):
    batch = observations(policy, 200)
    values = policy.q_values(batch)
    mask = np.random.default_rng(3).random((200, 3)) < 0.5
    mask[~mask.any(1), 2] = True
    assert np.array_equal(policy.act(batch, mask), np.where(mask, values, -np.inf).argmax(1))
    assert np.array_equal(policy.act(batch, mask=mask.tolist()), policy.act(batch, mask))
    mask[7] = False
    with pytest.raises(ValueError, match="row 7 of the mask allows no action"):
        policy.act(batch, mask)
    for bad in (mask[:5], mask.astype(np.int64), mask[0]):
        with pytest.raises(ValueError, match=r"mask must be bool of shape \[200, 3\]"):
            policy.act(batch, bad)


def test_arrays_of_any_layout(policy, pixels_model):
    pixels = load_policy(pixels_model)
    assert pixels.observation_kind == "planes" and pixels.stack > 1
    assert pixels.observation_shape[0] % pixels.stack == 0
    batch = observations(pixels, 6)
    expected = pixels.q_values(batch)
    assert np.array_equal(pixels.q_values(np.asfortranarray(batch)), expected)
    assert np.array_equal(pixels.q_values(batch[::2]), expected[::2])
    assert np.array_equal(pixels.q_values(batch[::-1]), expected[::-1])
    read_only = batch.copy()
    read_only.flags.writeable = False
    assert np.array_equal(pixels.q_values(read_only), expected)
    batch = observations(policy, 6)
    expected = policy.q_values(batch)
    for other in (batch.astype(np.float64), batch.tolist(), np.asfortranarray(batch), batch.astype(">f4")):
        assert np.array_equal(policy.q_values(other), expected)
    assert policy.q_values(batch[:0]).shape == (0, 3)
    assert policy.act(batch[:0]).shape == (0,)


def test_what_is_wrong_is_named(policy, pixels_model):
    length = policy.observation_shape[0]
    for bad in (np.zeros(length + 1), np.zeros((2, length, 1)), np.zeros((2, length), complex), 3.0, "text", None):
        with pytest.raises(ValueError, match=rf"float of shape \({length},\) or \(batch, {length}\)"):
            policy.q_values(bad)
    pixels = load_policy(pixels_model)
    for bad in (observations(pixels, 2) / 255, observations(pixels, 2)[:, :1], observations(pixels, 2).astype(np.int64)):
        with pytest.raises(ValueError, match="uint8 of shape"):
            pixels.act(bad)


def test_a_saved_policy_is_the_same(policy, tmp_path):
    policy.save(tmp_path / "copy.safetensors")
    copy = load_policy(str(tmp_path / "copy.safetensors"))
    batch = observations(policy, 10)
    assert np.array_equal(copy.q_values(batch), policy.q_values(batch))
    copy.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "copy.safetensors").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []
    with pytest.raises(FileNotFoundError):
        policy.save(tmp_path / "no" / "folder" / "x.safetensors")


def test_a_model_alone_is_enough(catch_run, tmp_path):
    shutil.copy(catch_run / "agents" / "popart-s1" / "model.safetensors", tmp_path / "alone.safetensors")
    alone, within = load_policy(tmp_path / "alone.safetensors"), load_policy(catch_run / "agents" / "popart-s1")
    batch = observations(alone, 10)
    assert np.array_equal(alone.q_values(batch), within.q_values(batch))


def test_hostile_files_are_refused(catch_run, tmp_path):
    path = tmp_path / "x.safetensors"
    metadata, tensors = read_model(catch_run / "agents" / "popart-s1" / "model.safetensors")

    def refused(match, **changes):
        write_model(path, {k: v for k, v in {**metadata, **changes}.items() if v is not None}, tensors)
        with pytest.raises(ValueError, match=match):
            load_policy(path)

    refused("lacks 'codec_settings'", codec_settings=None)
    refused("lacks 'observation'", observation=None)
    refused("do not say 'frames'", frames=None)
    refused("this version reads", format="spectral-rl 9")
    refused("there is no codec", codec="mine")
    refused("observation", observation='{"length": 99999999999}')
    refused("observation", observation="[" * 1000)
    refused("actions", actions="[]")
    refused("hidden", hidden="[16, 16]")
    refused("network", network="transformer")
    refused("discount", discount="2")
    refused("statistics_rat", codec_settings="statistics_rat = 0.1")
    path.write_bytes(b"not a model")
    with pytest.raises(ValueError):
        load_policy(path)
    with pytest.raises(FileNotFoundError):
        load_policy(tmp_path / "none")
    with pytest.raises(ValueError, match="holds 4 models: give the folder of one agent"):
        load_policy(catch_run)


def test_threads_share_a_policy(policy):
    batch = observations(policy, 500)
    expected, found = policy.q_values(batch), []
    threads = [threading.Thread(target=lambda: found.append(policy.q_values(batch))) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(found) == 8 and all(np.array_equal(values, expected) for values in found)


def test_names():
    assert Policy is spectral_rl._native.Policy
    assert {"Policy", "Run", "load_policy"} <= set(dir(spectral_rl))
