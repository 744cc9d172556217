"""Compares models with PyTorch: python compare.py WEIGHTS FOLDER...

WEIGHTS is the program of docs/RUN_DIRECTORY.md. Each FOLDER holds a model.safetensors, samples.bin (bytes or f32, sample after
sample) and outputs.bin (f32, what Spectral's network makes of them). The model is also written again by the safetensors
library, as again.safetensors.
"""

import importlib.util
import json
import math
import pathlib
import sys
import zlib

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from safetensors import safe_open

TOLERANCE = 1e-5


def checksum(meta, tensors):
    """The checksum that the documentation describes."""
    text = b"".join(f"{key}\0{value}\0".encode() for key, value in sorted(meta.items()) if key != "crc32")
    data = b"".join(name.encode() + b"\0" + tensor.tobytes() for name, tensor in sorted(tensors.items()))
    return f"{zlib.crc32(text + data):08x}"


def compare(weights, folder):
    path = folder / "model.safetensors"
    network = weights.Network(path)
    shape = json.loads(network.meta["observation"])
    if network.meta["input_scaling"] == "none":
        samples = np.fromfile(folder / "samples.bin", dtype="<f4").reshape(-1, shape["length"])
        samples = torch.from_numpy(samples)
    else:
        sides = (shape["stack"] * shape["channels"], shape["height"], shape["width"])
        samples = np.fromfile(folder / "samples.bin", dtype=np.uint8).reshape(-1, *sides)
        samples = torch.from_numpy(samples) / 255
    with torch.no_grad():
        theirs = network(samples)
    actions = len(json.loads(network.meta["actions"]))
    ours = np.fromfile(folder / "outputs.bin", dtype="<f4").reshape(len(samples), actions, network.outputs)
    difference = (theirs - torch.from_numpy(ours)).abs().max().item()
    largest = theirs.abs().max().item()
    print(f"{folder.name}: outputs up to {largest:.3g} differ by {difference:.1e}")
    # Not `>`, which NaN would pass.
    assert difference <= TOLERANCE * max(1.0, largest), f"{folder}: other outputs"
    spread = theirs.std(dim=0).max().item()
    assert spread > 100 * TOLERANCE, f"{folder}: outputs hardly depend on the samples ({spread})"

    tensors = safetensors.numpy.load_file(path)
    with safe_open(path, framework="np") as file:
        meta = file.metadata()
    assert checksum(meta, tensors) == meta["crc32"], f"{folder}: another checksum"
    assert tensors["codec_state"].dtype == np.float64
    parameters = sum(math.prod(p.shape) for p in network.parameters())
    assert parameters == sum(t.size for t in tensors.values()) - tensors["codec_state"].size
    again = safetensors.torch.load_file(path)
    safetensors.torch.save_file(again, folder / "again.safetensors", metadata=meta)


def main():
    spec = importlib.util.spec_from_file_location("weights", sys.argv[1])
    weights = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(weights)
    for folder in sys.argv[2:]:
        compare(weights, pathlib.Path(folder))


if __name__ == "__main__":
    main()
