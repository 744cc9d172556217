"""Steps per second of vector environments from Python: Spectral, EnvPool and ale-py side by side on Atari Pong.

    python benches/python/vector_stepping.py > benches/results/python-vector-stepping.txt

needs `pip install envpool ale-py` beside spectral-rl. All three take turns, each in a process of its own, so that a load on
the machine hits all of them and no thread of one runs during the turn of another. The figures are medians over the turns.

All have the same settings: `preprocessed` is 84 × 84 grey, the maximum of two frames, 4 frames an action, 4 stacked, up to
30 no-ops at a reset, no fire at a reset, no sticky actions, rewards not clipped, a lost life no end; `raw` is the screen of
210 × 160 in colour at every frame, not stacked. All reset at the next step, have a thread per core and play the same random
actions. A step is one action in one environment.

A step has to write its observation, 28,224 or 100,800 bytes; the row `copying` is NumPy copying as many bytes with one core
from one array to another, which is a floor for the time of a step. What remains is emulation, of 4 frames or of 1.

Steps per wall-clock second say what a user gets; on a machine that others use too, steps per CPU second of the process
say more, because they do not depend on how many of the cores each turn was given.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

CONTESTANTS = ["spectral", "envpool", "ale-py"]
FLOOR = "copying"
KINDS = ["preprocessed", "raw"]
# Bytes of an observation: what has to be written at least.
BYTES = {"preprocessed": 4 * 84 * 84, "raw": 210 * 160 * 3}


def make(contestant, kind, num_envs, threads):
    raw = kind == "raw"
    if contestant == "spectral":
        import gymnasium

        return gymnasium.make_vec(
            "spectral_rl:SpectralAtari/Pong-v0", num_envs=num_envs, threads=threads, raw=raw
        )
    size = {"img_height": 210, "img_width": 160} if raw else {"img_height": 84, "img_width": 84}
    if contestant == "envpool":
        import envpool

        return envpool.make_gymnasium(
            "Pong-v5",
            num_envs=num_envs,
            num_threads=threads,
            gray_scale=not raw,
            stack_num=1 if raw else 4,
            frame_skip=1 if raw else 4,
            noop_max=1 if raw else 30,
            use_fire_reset=False,
            episodic_life=False,
            reward_clip=False,
            repeat_action_probability=0.0,
            max_episode_steps=108_000 if raw else 27_000,
            **size,
        )
    from ale_py.vector_env import AtariVectorEnv

    return AtariVectorEnv(
        "pong",
        num_envs,
        num_threads=threads,
        grayscale=not raw,
        stack_num=1 if raw else 4,
        frameskip=1 if raw else 4,
        maxpool=not raw,
        noop_max=0 if raw else 30,
        use_fire_reset=False,
        episodic_life=False,
        reward_clipping=False,
        repeat_action_probability=0.0,
        **size,
    )


class Copying:
    """Nothing but the bytes."""

    def __init__(self, num_envs, size):
        import numpy as np

        self.arrays = [np.ones((num_envs, size), dtype=np.uint8) for _ in range(2)]

    def reset(self):
        pass

    def step(self, actions):
        self.arrays.reverse()
        self.arrays[0][:] = self.arrays[1]
        return self.arrays[:1]


def measure(contestant, kind, num_envs, threads, seconds, turn):
    """One turn: wall-clock steps per second, CPU seconds per wall-clock second, and bytes of an observation."""
    import numpy as np

    if contestant == FLOOR:
        envs = Copying(num_envs, BYTES[kind])
    else:
        envs = make(contestant, kind, num_envs, threads)
    envs.reset()
    actions = np.random.default_rng(turn).integers(0, 6, (1000, num_envs)).astype(np.int32)
    seen = 0

    def play(seconds):
        nonlocal seen
        steps, since, cpu = 0, time.perf_counter(), time.process_time()
        while (passed := time.perf_counter() - since) < seconds:
            for _ in range(10):
                observations = envs.step(actions[steps % 1000])[0]
                steps += 1
        seen = observations.nbytes // num_envs
        return steps * num_envs / passed, (time.process_time() - cpu) / passed

    play(0.3)
    speed, cores = play(seconds)
    return {"speed": speed, "cores": cores, "bytes": seen}


def in_its_own_process(*arguments):
    command = [sys.executable, __file__, "--one", *map(str, arguments)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(out.stdout.splitlines()[-1])


def processor():
    with open("/proc/cpuinfo") as lines:
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def report(kind, num_envs, options):
    """Lets all take turns and prints a row for each."""
    turns = {contestant: [] for contestant in [*CONTESTANTS, FLOOR]}
    for turn in range(options.turns):
        # Who begins changes, so that nobody always runs after the same one.
        first = turn % len(turns)
        for contestant in [*turns][first:] + [*turns][:first]:
            one = in_its_own_process(contestant, kind, num_envs, options.threads, options.seconds, turn)
            assert one["bytes"] == BYTES[kind], (contestant, one)
            turns[contestant].append({**one, "efficiency": one["speed"] / one["cores"]})

    def median(contestant, what):
        return statistics.median(one[what] for one in turns[contestant])

    for contestant, seen in turns.items():
        row = f"{kind:<13}{num_envs:>5}   {contestant:<10}{median(contestant, 'speed'):>9.0f}{median(contestant, 'cores'):>7.2f}"
        row += f"{median(contestant, 'efficiency'):>13.0f}"
        if contestant in CONTESTANTS[1:]:
            for what, width in [("speed", 9), ("efficiency", 11)]:
                row += f"{median('spectral', what) / median(contestant, what):>{width}.2f}"
            row += f"{min(own['efficiency'] / one['efficiency'] for own, one in zip(turns['spectral'], seen)):>8.2f}"
        print(row, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--one", nargs=6)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--num-envs", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.one:
        contestant, kind, num_envs, threads, seconds, turn = options.one
        print(json.dumps(measure(contestant, kind, int(num_envs), int(threads), float(seconds), int(turn))))
        return

    from importlib.metadata import version

    versions = ", ".join(f"{name} {version(name)}" for name in ["spectral-rl", "envpool", "ale-py", "numpy", "gymnasium"])
    print(f"# {os.cpu_count()} cores of an {processor()}; Python {platform.python_version()}; {versions}")
    print(f"# load before: {os.getloadavg()[0]:.2f}; {options.turns} turns of {options.seconds:g} s each, medians;")
    print("# cores: CPU seconds per second; ratio: Spectral's speed to this one's, of wall-clock speeds and of speeds per CPU")
    print("# second; lowest: the lowest ratio per CPU second of any turn")
    print(f"{'pong':<13}{'envs':>5}{'':>3}{'':<10}{'steps/s':>9}{'cores':>7}{'steps/CPU s':>13}{'ratio':>9}{'CPU ratio':>11}{'lowest':>8}")
    for kind in KINDS:
        for num_envs in options.num_envs:
            report(kind, num_envs, options)
    print(f"# load after: {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
