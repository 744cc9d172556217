"""Times PyTorch (CPU, eager, fused Adam) on the training steps that spectral-nn is measured on.

One step is: target network on s', online network on s, backward from a given output gradient, Adam.
Prints one JSON object. Needs torch; nothing of this project.

    python torch_step.py [--net mlp|small|nature|all|none] [--threads N] [--seconds S] [--gemm]
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn

BATCH = 32
REPEAT_SECONDS = 0.003


class Scaled(nn.Module):
    """Bytes to floats in [0, 1], as the network of every agent sees them."""

    def forward(self, x):
        return x.float().mul_(1.0 / 255.0)


def mlp():
    net = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 63))
    return net, lambda: torch.randn(BATCH, 32), 63


def small():
    net = nn.Sequential(
        Scaled(), nn.Conv2d(4, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 8 * 8, 128), nn.ReLU(), nn.Linear(128, 63)
    )
    return net, lambda: torch.randint(0, 256, (BATCH, 4, 10, 10), dtype=torch.uint8), 63


def nature():
    net = nn.Sequential(
        Scaled(),
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(),
        nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 126),
    )  # fmt: skip
    return net, lambda: torch.randint(0, 256, (BATCH, 4, 84, 84), dtype=torch.uint8), 126


NETS = {"mlp": (mlp, 1), "small": (small, 1), "nature": (nature, 2)}


def time_step(make, channels_last, seconds):
    """Median and minimum over many short repeats of the mean milliseconds of one step.

    Short repeats let some fall between the time slices of other programs.
    """
    torch.manual_seed(0)
    online, samples, outputs = make()
    target, _, _ = make()
    states, nexts = samples(), samples()
    if channels_last:
        online, target = online.to(memory_format=torch.channels_last), target.to(memory_format=torch.channels_last)
        states, nexts = (t.to(memory_format=torch.channels_last) for t in (states, nexts))
    # A constant gradient would drive the network far from any trained one; the work is the same without motion.
    optimiser = torch.optim.Adam(online.parameters(), lr=0.0, eps=1e-4, fused=True)
    gradient = torch.randn(BATCH, outputs) / BATCH

    def step():
        with torch.inference_mode():
            target(nexts)
        y = online(states)
        optimiser.zero_grad(set_to_none=True)
        y.backward(gradient)
        optimiser.step()

    for _ in range(5):
        step()
    start = time.perf_counter()
    for _ in range(5):
        step()
    count = max(1, int(5 * REPEAT_SECONDS / (time.perf_counter() - start)))
    means, begin = [], time.perf_counter()
    while len(means) < 5 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        for _ in range(count):
            step()
        means.append((time.perf_counter() - start) / count * 1e3)
    return {"median_ms": statistics.median(means), "min_ms": min(means)}


def gemm_gflops(threads, size=2000):
    """The rate of one large matrix product: the yardstick beside the Nature network."""
    torch.set_num_threads(threads)
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", choices=[*NETS, "all", "none"], default="all")
    parser.add_argument("--threads", type=int, help="default: 1, and 2 for the Nature network")
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each network and memory layout")
    parser.add_argument("--gemm", action="store_true", help="time a 2000 x 2000 matrix product as well")
    args = parser.parse_args()

    result = {"torch": torch.__version__, "cpu": torch.backends.cpu.get_cpu_capability(), "steps": {}}
    names = {"all": list(NETS), "none": []}.get(args.net, [args.net])
    for name in names:
        make, threads = NETS[name]
        threads = args.threads or threads
        torch.set_num_threads(threads)
        layouts = {"contiguous": time_step(make, False, args.seconds)}
        if name != "mlp":
            layouts["channels_last"] = time_step(make, True, args.seconds)
        best = min(layouts.values(), key=lambda timing: timing["median_ms"])
        result["steps"][name] = {"threads": threads, "batch": BATCH, **best, "layouts": layouts}
    if args.gemm:
        result["gemm_gflops"] = {str(threads): gemm_gflops(threads) for threads in (1, 2)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
