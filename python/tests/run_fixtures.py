"""Runs and models that several tests read."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

# Seconds after which a test no longer waits for what must come: many times what anything here takes on two slow cores. It is
# there so that a fault ends as a failure and not never, and measures nothing.
PATIENCE = 600

AGENTS = [
    "spectral",
    "spectral-exponential",
    "spectral-uniform",
    "spectral-binary",
    "steady",
    "compressed",
    "compressed-r2d2",
    "compressed-log",
    "popart",
    "clipped",
    "categorical",
    "categorical-mean",
    "c51-squashed",
]

# Networks of every kind: settings of a run.
NETWORKS = {
    "mlp": ["--task", "catch-scale", "--set", "hidden=24,16"],
    "mlp-dueling": ["--task", "catch-scale", "--set", "hidden=24", "--set", "dueling=true"],
    "mlp-planes": ["--task", "catch-scale", "--set", "observation=planes", "--set", "network=mlp", "--set", "hidden=24"],
    "small-cnn": ["--task", "catch-scale", "--set", "observation=planes"],
    "small-cnn-dueling": ["--task", "catch-scale", "--set", "observation=planes", "--set", "dueling=true"],
    "nature": ["--task", "pong-mini", "--set", "observation=pixels"],
    "nature-dueling": ["--task", "pong-mini", "--set", "observation=pixels", "--set", "dueling=true"],
}


def spectral(*arguments, check=True):
    """Runs the `spectral` command as a user would."""
    script = "from spectral_rl._command import main; main()"
    words = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True)
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def train(out, *arguments, frames=300):
    """A short run of the command."""
    short = ["learning_starts=100", "batch=8", "replay=500", "log_frames=100"]
    settings = [word for pair in short for word in ("--set", pair)]
    spectral("train", "--frames", frames, "--device", "cpu", "--out", out, *settings, *arguments)
    return out


def read_model(path):
    """A model file as (metadata, {name: array}), without any package."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    metadata = header.pop("__metadata__")
    kinds = {"F32": np.float32, "F64": np.float64}
    tensors = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(data[start:end], kinds[entry["dtype"]]).reshape(entry["shape"])
    return metadata, tensors


def write_model(path, metadata, tensors):
    """Writes what `read_model` gave, as another program would: without the checksum."""
    header, data = {"__metadata__": {k: v for k, v in metadata.items() if k != "crc32"}}, b""
    for name, tensor in tensors.items():
        kind = {"float32": "F32", "float64": "F64"}[str(tensor.dtype)]
        raw = np.ascontiguousarray(tensor).tobytes()
        header[name] = {"dtype": kind, "shape": tensor.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def shake(source, target, seed=0):
    """A copy of a model with large random weights, whose values are therefore far from each other and from 0."""
    rng = np.random.default_rng(seed)
    metadata, tensors = read_model(source)
    for name, tensor in tensors.items():
        if tensor.dtype == np.float32:
            fan_in = tensor[0].size if tensor.ndim > 1 else 1
            scale = 1.5 / np.sqrt(fan_in) if tensor.ndim > 1 else 0.3
            tensors[name] = rng.normal(0, scale, tensor.shape).astype(np.float32)
    write_model(target, metadata, tensors)
    return target


def observations(policy, rows, seed=0):
    """Random observations for a policy."""
    rng = np.random.default_rng(seed)
    shape = (rows, *policy.observation_shape)
    if policy.observation_kind == "planes":
        return rng.integers(0, 256, shape, dtype=np.uint8)
    return rng.normal(0, 1, shape).astype(np.float32)


def wait_until(what, happened, process):
    """Waits until something has happened while a process goes on."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert process.poll() is None, f"the process ended with {process.returncode} before {what}"
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)


def wait_for_metrics(run_dir, process):
    """Waits until each agent of a run has a few lines of metrics: by then the process is training."""

    def there():
        files = list(Path(run_dir).glob("agents/*/metrics.csv"))
        return files and all(path.stat().st_size > 500 for path in files)

    wait_until("metrics", there, process)


@pytest.fixture(scope="session")
def catch_run(tmp_path_factory):
    """A finished run of two agents with two seeds on a vector task."""
    out = tmp_path_factory.mktemp("runs") / "catch"
    return train(
        out, "--task", "catch-scale", "--agents", "spectral,popart", "--seeds", 2, "--set", "hidden=16", frames=3000
    )


@pytest.fixture(scope="session")
def pixels_model(tmp_path_factory):
    """A model of an agent that sees stacked pictures."""
    out = tmp_path_factory.mktemp("runs") / "pixels"
    train(out, *NETWORKS["nature"], "--agents", "spectral", frames=150)
    return os.path.join(out, "agents", "spectral-s1", "model.safetensors")


def unsealed(text):
    """The text of run.toml or state.toml without the checksum in its first line, as somebody has it who changes it on purpose."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("# checksum"))
