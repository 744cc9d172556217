"""Exported policies give in onnxruntime what they give here."""

import os

import numpy as np
import pytest

from run_fixtures import AGENTS, NETWORKS, observations, shake, spectral, train
from spectral_rl import load_policy

onnxruntime = pytest.importorskip("onnxruntime", reason="SKIPPED: onnxruntime is not installed")

# The largest difference, relative to the largest value of the batch, that was measured on 64 random observations with
# large random weights: see the table that `pytest -s` prints. f32 sums in another order make it.
TOLERANCE = 1e-4


@pytest.fixture(scope="module", params=NETWORKS)
def network(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("onnx") / request.param
    frames = 130 if "nature" in request.param else 300
    train(out, *NETWORKS[request.param], "--agents", ",".join(AGENTS), frames=frames)
    return request.param, out


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def test_every_agent_is_here():
    _, *lines = spectral("agents").stdout.splitlines()
    names = [line.split()[0] for line in lines if line.strip() and not line.startswith(" ")]
    assert AGENTS == names[: len(AGENTS)], "list a new agent in run_fixtures.py"
    assert not [name for name in names[len(AGENTS) :] if name in AGENTS or name.split("-")[0] in AGENTS]


@pytest.mark.parametrize("agent", AGENTS)
def test_onnxruntime_agrees(network, agent, tmp_path):
    name, run = network
    trained = run / "agents" / f"{agent}-s1" / "model.safetensors"
    shaken = shake(trained, tmp_path / "shaken.safetensors", seed=AGENTS.index(agent))
    for path in (trained, shaken):
        policy = load_policy(path)
        file = tmp_path / f"{path.stem}.onnx"
        policy.export_onnx(file)
        try:
            import onnx
        except ImportError:
            pass
        else:
            onnx.checker.check_model(str(file), full_check=True)
        there = session(file)
        assert [i.name for i in there.get_inputs()] == ["observation"]
        assert there.get_inputs()[0].shape == ["batch", *policy.observation_shape]
        assert [o.name for o in there.get_outputs()] == ["q_values", "outputs"]
        assert there.get_modelmeta().custom_metadata_map["agent"] == agent
        for rows in (64, 1):
            batch = observations(policy, rows, seed=rows)
            values, outputs = there.run(None, {"observation": batch})
            for what, found, expected in (
                ("q", values, policy.q_values(batch)), ("y", outputs, policy.outputs(batch)),
            ):
                assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
                scale = max(np.abs(expected).max(), 1e-6)
                difference = np.abs(found - expected).max() / scale
                if path is shaken and rows == 64:
                    print(f"{name:18} {agent:20} {what} scale {scale:9.3g} difference {difference:.1e}")
                assert difference <= TOLERANCE, (name, agent, what, scale, difference)
    assert os.listdir(tmp_path) and not [n for n in os.listdir(tmp_path) if n.startswith(".")]


def test_an_empty_batch_and_equal_files(network, tmp_path):
    _, run = network
    policy = load_policy(run / "agents" / "spectral-s1")
    policy.export_onnx(tmp_path / "a.onnx")
    policy.export_onnx(str(tmp_path / "b.onnx"))
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    values, outputs = session(tmp_path / "a.onnx").run(None, {"observation": observations(policy, 0)})
    assert values.shape == (0, 3) and outputs.shape == (0, 3, 21)


def test_a_folder_that_is_not_there(network, tmp_path):
    _, run = network
    with pytest.raises(FileNotFoundError):
        load_policy(run / "agents" / "spectral-s1").export_onnx(tmp_path / "no" / "x.onnx")
