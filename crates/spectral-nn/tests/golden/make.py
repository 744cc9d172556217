"""Makes the golden files beside this script with PyTorch, in double precision.

Each file holds, for one small network in the crate's canonical layout: outputs, gradients of all parameters (the last
layer's from one output gradient, the others' from another) and parameters and moments after five steps of Adam.
Parameters, samples and output gradients are not stored: both sides compute them from the same hash.

    python make.py            writes the files
    python make.py --check    recomputes and compares with the files; exit code 1 if they differ
"""

import argparse
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
BATCH = 5
STEPS = 5
ADAM = dict(lr=1e-2, betas=(0.9, 0.99), eps=1e-3)
# name: input (planes: channels, height, width; vector: length), convolutions (filters, kernel, stride), hidden
# units, actions, outputs per action, dueling
NETS = {
    "mlp": ((7,), [], [18, 13], 3, 4, False),
    "small_cnn": ((3, 6, 7), [(5, 3, 1)], [11], 2, 3, False),
    "mini_nature": ((4, 21, 22), [(6, 4, 2), (7, 3, 2), (5, 2, 1)], [14], 3, 2, False),
    "dueling": ((9,), [], [12, 10], 3, 5, True),
}


def uniform(stream, count):
    """Numbers in [0, 1) with 24 bits from a hash of stream and index, as the Rust test computes them."""
    x = (np.arange(1, count + 1, dtype=np.uint64) * 2654435761 + stream * 97531) & 0xFFFFFFFF
    x ^= x >> 15
    x = (x * 2246822519) & 0xFFFFFFFF
    x ^= x >> 13
    return (x >> 8).astype(np.float32) / np.float32(1 << 24)


def signed(stream, count, scale):
    return torch.from_numpy(((2 * uniform(stream, count) - 1) * np.float32(scale)).astype(np.float64))


class Net:
    """The network as a function of one flat vector of parameters."""

    def __init__(self, shape, convs, hidden, actions, per_action, dueling):
        self.shape, self.convs, self.hidden = shape, convs, list(hidden)
        self.actions, self.per_action, self.dueling = actions, per_action, dueling
        if dueling:
            self.hidden[-1] *= 2
        channels, side = shape[0], list(shape[1:])
        self.sizes = []
        for filters, kernel, stride in convs:
            self.sizes += [kernel * kernel * channels * filters, filters]
            side = [(s - kernel) // stride + 1 for s in side]
            channels = filters
        width = int(np.prod([channels, *side]))
        for units in self.hidden:
            self.sizes += [width * units, units]
            width = units
        self.outputs = actions * per_action
        self.head_at = sum(self.sizes)
        if dueling:
            self.sizes += [width // 2 * per_action, per_action, width // 2 * self.outputs, self.outputs]
        else:
            self.sizes += [width * self.outputs, self.outputs]

    def __call__(self, flat, x):
        parts = iter(torch.split(flat, self.sizes))
        for _, kernel, stride in self.convs:
            weights, bias = next(parts), next(parts)
            # Canonical order is kernel row, kernel column, channel, filter.
            weights = weights.reshape(kernel, kernel, -1, bias.numel()).permute(3, 2, 0, 1)
            x = F.relu(F.conv2d(x, weights, bias, stride=stride))
        if self.convs:
            x = x.permute(0, 2, 3, 1)
        x = x.reshape(len(x), -1)
        for _ in self.hidden:
            weights, bias = next(parts), next(parts)
            x = F.relu(x @ weights.reshape(-1, bias.numel()) + bias)
        if not self.dueling:
            weights, bias = next(parts), next(parts)
            return x @ weights.reshape(-1, bias.numel()) + bias
        half = x.shape[1] // 2
        value_weights, value_bias, weights, bias = parts
        value = x[:, :half] @ value_weights.reshape(half, -1) + value_bias
        advantage = (x[:, half:] @ weights.reshape(half, -1) + bias).reshape(len(x), self.actions, self.per_action)
        q = value[:, None, :] + advantage - advantage.mean(1, keepdim=True)
        return q.reshape(len(x), -1)


def make(name):
    net = Net(*NETS[name])
    flat = signed(1, sum(net.sizes), 0.25).requires_grad_()
    count = BATCH * int(np.prod(net.shape))
    if len(net.shape) == 3:
        samples = torch.from_numpy(np.floor(uniform(2, count) * 256).astype(np.float64)) / 255
    else:
        samples = signed(2, count, 1.0)
    samples = samples.reshape(BATCH, *net.shape)
    last = signed(3, BATCH * net.outputs, 0.5).reshape(BATCH, -1)
    trunk = signed(4, BATCH * net.outputs, 0.5).reshape(BATCH, -1)
    optimiser = torch.optim.Adam([flat], **ADAM)
    tensors = {}
    for step in range(STEPS):
        outputs = net(flat, samples)
        (own,) = torch.autograd.grad(outputs, flat, last, retain_graph=True)
        (below,) = torch.autograd.grad(outputs, flat, trunk)
        flat.grad = torch.cat([below[: net.head_at], own[net.head_at :]])
        if step == 0:
            tensors["outputs"], tensors["gradients"] = outputs.detach().flatten(), flat.grad.clone()
        optimiser.step()
    state = optimiser.state[flat]
    tensors |= {"parameters": flat.detach(), "first": state["exp_avg"], "second": state["exp_avg_sq"]}
    return tensors


def read(path):
    tensors = {}
    for line in path.read_text().splitlines():
        name, *values = line.split()
        tensors[name] = torch.tensor([float(value) for value in values], dtype=torch.float64)
    return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    failed = False
    for name in NETS:
        path, tensors = HERE / f"{name}.txt", make(name)
        if not check:
            lines = (f"{key} {' '.join(f'{x:.8g}' for x in value.tolist())}\n" for key, value in tensors.items())
            path.write_text("".join(lines))
            continue
        stored = read(path)
        for key, value in tensors.items():
            if key not in stored or stored[key].shape != value.shape:
                print(f"{name}: {key} is missing or has another length")
                failed = True
                continue
            error = ((stored[key] - value).norm() / value.norm()).item()
            print(f"{name}: {key} differs by {error:.1e}")
            failed |= not error <= 1e-6
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
