"""Our DQN beside that of Stable-Baselines3: same tasks, same budget, same networks, same settings, five seeds.

    python benches/python/vs_sb3.py                 # the comparison; prints everything that is worth keeping
    python benches/python/vs_sb3.py --choose        # what chose the settings: SB3 alone, on other seeds
    python benches/python/vs_sb3.py --tasks follow  # one of the tasks

CartPole's settings are those of SB3's zoo, as far as both have them. Those of the image task were written down at once; that
task itself was changed until our CNN learned it (seed 101). `--choose` compares settings for SB3 alone on seeds 101 to 103: use
it before settings are changed, and report on seeds 1 to 5.

What is the same: steps, network and its input, learning rate, minibatch, replay, first update, steps from one update to the
next and from one target to the next, ε at every step, discount, one-step returns, Huber's loss, Adam with its constants, two
threads, the processor, episodes of evaluation (the same start states, SB3's `evaluate_policy`).

What differs and cannot be made equal by settings:

- SB3 clips the norm of the gradient at 10 (left as SB3 has it); ours does not clip.
- SB3 draws biases from ±1/sqrt(fan-in), as PyTorch does; ours begin at 0. Weights are drawn alike.
- SB3 learns after every fourth step; ours while the next action is played, and without the very last transition.
- At a time limit SB3 bootstraps from the last observation; ours leaves the last transition of the episode out.
- Ours clips rewards to ±1. Both tasks have no other rewards than 0 and 1.
- SB3's random numbers come from one generator, ours are keyed by seed and step, so equal seeds give unlike runs.
"""

import argparse
import math
import os
import platform
import tempfile
import time

import gymnasium
import numpy as np
from gymnasium import spaces

import spectral_rl

EVALUATION_EPISODES = 20
# SB3's own; `--no-clip` finds out what it is worth.
MAX_GRAD_NORM = 10.0
THREADS = 2
REPORTED, CHOSEN_ON = (1, 2, 3, 4, 5), (101, 102, 103)
# Quantiles of Student's t for a two-sided 90% interval, by degrees of freedom.
STUDENT = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833}


class ImageFollow(gymnasium.Env):
    """A bar in the upper half of the image wanders over seven columns: stay under it with the bar in the lower half.

    Rewards come at every step, and bars are large: smaller things and later rewards took the CNN of both libraries longer
    than the minutes that there are here.
    """

    COLUMNS, STEPS = 7, 50

    def __init__(self, size=42):
        self.width = size // self.COLUMNS
        self.observation_space = spaces.Box(0, 255, (1, size, size), np.uint8)
        self.action_space = spaces.Discrete(3)

    def _seen(self):
        image, half = np.zeros(self.observation_space.shape, np.uint8), self.observation_space.shape[1] // 2
        image[0, :half, self.target * self.width : (self.target + 1) * self.width] = 255
        image[0, half:, self.at * self.width : (self.at + 1) * self.width] = 255
        return image

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.target, self.steps = self.COLUMNS // 2, int(self.np_random.integers(self.COLUMNS)), 0
        return self._seen(), {}

    def step(self, action):
        self.at = min(max(self.at + int(action) - 1, 0), self.COLUMNS - 1)
        reward = float(self.at == self.target)
        # It moves at one step in three, after the reward: whoever looks can always be under it one step later.
        if self.np_random.random() < 1 / 3:
            self.target = min(max(self.target + int(self.np_random.choice((-1, 1))), 0), self.COLUMNS - 1)
        self.steps += 1
        return self._seen(), reward, self.steps == self.STEPS, False, {}


class FixedStarts(gymnasium.Wrapper):
    """Episode i begins from seed `first + i`, whoever plays."""

    def __init__(self, env, first=10_000):
        super().__init__(env)
        self._next = first

    def reset(self, *, seed=None, options=None):
        self._next += 1
        return self.env.reset(seed=self._next - 1, options=options)


# By our names. `policy` is SB3's, `network` and `hidden` are ours: the same layers.
TASKS = {
    "cartpole": {
        "title": "CartPole-v1, MLP 64-64",
        "make": lambda: gymnasium.make("CartPole-v1"),
        "steps": 50_000,
        "policy": "MlpPolicy",
        "network": {"network": "mlp", "hidden": "64,64"},
        # Those of SB3's zoo, whose 128 updates after every 256 steps are spread evenly here: one after every second step.
        "settings": {
            "learning_rate": 2.3e-3,
            "batch": 64,
            "replay": 50_000,
            "learning_starts": 1_000,
            "update_period": 2,
            "target_period": 250,
            "epsilon_start": 1.0,
            "epsilon_final": 0.04,
            "epsilon_frames": 8_000,
            "discount": 0.99,
            "adam_epsilon": 1e-8,
        },
        "choices": [{}, {"learning_rate": 1e-3}, {"learning_rate": 1e-3, "update_period": 4, "target_period": 500}],
    },
    "follow": {
        "title": "ImageFollow 42 × 42, Nature CNN",
        "make": ImageFollow,
        "steps": 10_000,
        "policy": "CnnPolicy",
        "network": {"network": "nature"},
        "settings": {
            "learning_rate": 3e-4,
            "batch": 32,
            "replay": 10_000,
            "learning_starts": 1_000,
            "update_period": 4,
            "target_period": 500,
            "epsilon_start": 1.0,
            "epsilon_final": 0.05,
            "epsilon_frames": 3_000,
            "discount": 0.9,
            "adam_epsilon": 1e-8,
        },
        "choices": [{}, {"learning_rate": 1e-4}, {"learning_rate": 1e-3}],
    },
}

# Speed alone at the size of Atari's images, where products of matrices take most of the time.
TASKS["follow84"] = {
    **TASKS["follow"],
    "title": "ImageFollow 84 × 84, Nature CNN: speed alone",
    "make": lambda: ImageFollow(84),
    "steps": 3_000,
    "settings": {**TASKS["follow"]["settings"], "learning_starts": 200},
    "speed_alone": True,
}


def score(model, make):
    """The mean of greedy episodes from the same start states."""
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    mean, _ = evaluate_policy(model, Monitor(FixedStarts(make())), EVALUATION_EPISODES, deterministic=True)
    return float(mean)


def last_tenth(returns):
    """The mean return of the last tenth of episodes."""
    return float(np.mean(returns[-max(1, len(returns) // 10) :]))


def run_sb3(task, settings, seed):
    import stable_baselines3
    from stable_baselines3.common.monitor import Monitor

    env = Monitor(task["make"]())
    s, steps = settings, task["steps"]
    keywords = {"net_arch": [64, 64]} if task["policy"] == "MlpPolicy" else {}
    model = stable_baselines3.DQN(
        task["policy"],
        env,
        learning_rate=s["learning_rate"],
        buffer_size=s["replay"],
        learning_starts=s["learning_starts"],
        batch_size=s["batch"],
        gamma=s["discount"],
        train_freq=s["update_period"],
        gradient_steps=1,
        target_update_interval=s["target_period"],
        max_grad_norm=MAX_GRAD_NORM,
        exploration_initial_eps=s["epsilon_start"],
        exploration_final_eps=s["epsilon_final"],
        policy_kwargs={**keywords, "optimizer_kwargs": {"eps": s["adam_epsilon"]}},
        seed=seed,
        device="cpu",
    )

    def epsilon(left):
        # SB3 lets ε fall from the first step on and ours from the first update on: here SB3 does as ours.
        fallen = ((1 - left) * steps - s["learning_starts"]) / s["epsilon_frames"]
        return s["epsilon_start"] + (s["epsilon_final"] - s["epsilon_start"]) * min(max(fallen, 0.0), 1.0)

    model.exploration_schedule = epsilon
    begun = time.perf_counter()
    model.learn(steps)
    seconds = time.perf_counter() - begun
    final = None if task.get("speed_alone") else score(model, task["make"])
    return final, last_tenth(env.get_episode_rewards()), steps / seconds


def our_settings(task, settings):
    return {**settings, **task["network"], "n_step": 1, "threads": THREADS, "device": "cpu"}


def run_ours(task, settings, seed):
    with tempfile.TemporaryDirectory() as folder:
        run_dir = os.path.join(folder, "run")
        # As without a run_dir: nobody resumes it.
        once = {"checkpoint": "light", "checkpoint_seconds": 1e6}
        agent = spectral_rl.DQN(task["make"], seed=seed, run_dir=run_dir, **once, **our_settings(task, settings))
        begun = time.perf_counter()
        agent.learn(task["steps"])
        seconds = time.perf_counter() - begun
        final = None if task.get("speed_alone") else score(agent, task["make"])
        returns = agent.run.agents[0].episodes()["return"]
        agent.close()
    return final, last_tenth(returns), task["steps"] / seconds


def run_population(task, settings, seeds):
    """All seeds at once. Steps per second in all, and the final scores."""
    agents = spectral_rl.Population(task["make"], agents=["clipped"], seeds=list(seeds), **our_settings(task, settings))
    begun = time.perf_counter()
    agents.learn(task["steps"])
    rate = len(seeds) * task["steps"] / (time.perf_counter() - begun)
    finals = [] if task.get("speed_alone") else [score(agent, task["make"]) for agent in agents.agents]
    agents.close()
    return rate, finals


def interval(values):
    """The mean and Student's 90% interval over seeds."""
    mean, n = float(np.mean(values)), len(values)
    half = STUDENT[n - 1] * float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return mean, mean - half, mean + half


def line(values, digits=1):
    mean, low, high = interval(values)
    each = " ".join(f"{value:.{digits}f}" for value in values)
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})   seeds: {each}"


def say(*words):
    print(*words, flush=True)


def learns_as_well(ours, theirs):
    """Ours is not worse: its interval reaches that of SB3, or lies above."""
    return interval(ours)[2] >= interval(theirs)[1]


def compare(name, seeds):
    task = TASKS[name]
    settings = task["settings"]
    say(f"\n== {task['title']}: {task['steps']:,} steps a seed, load {os.getloadavg()[0]:.1f}")
    say("  " + ", ".join(f"{key} {value:g}" for key, value in settings.items()))
    rows = {"ours": [], "SB3": []}
    say(f"  {'seed':>4} {'library':>7} {'greedy':>8} {'training':>9} {'steps/s':>9} {'load':>6}")
    for turn, seed in enumerate(seeds):
        order = [("ours", run_ours), ("SB3", run_sb3)]
        for library, run in order if turn % 2 == 0 else order[::-1]:
            final, training, rate = run(task, settings, seed)
            rows[library].append((final, training, rate))
            shown = "" if final is None else f"{final:.1f}"
            say(f"  {seed:>4} {library:>7} {shown:>8} {training:>9.1f} {rate:>9.0f} {os.getloadavg()[0]:>6.1f}")
    columns = {library: list(zip(*found)) for library, found in rows.items()}
    if not task.get("speed_alone"):
        for index, what in [(0, f"greedy score, {EVALUATION_EPISODES} episodes"), (1, "return, last tenth of training")]:
            for library in ("SB3", "ours"):
                say(f"  {what}, {library}: {line(columns[library][index])}")
            verdict = learns_as_well(columns["ours"][index], columns["SB3"][index])
            say(f"    bar (90% intervals overlap, or ours is better): {'met' if verdict else 'NOT MET'}")
    for library in ("SB3", "ours"):
        say(f"  steps per second, {library}: {line(columns[library][2], 0)}")
    ratios = [ours / theirs for ours, theirs in zip(columns["ours"][2], columns["SB3"][2])]
    mean = math.exp(np.mean(np.log(ratios)))
    say(f"  ratio of steps per second: {mean:.2f} (geometric mean; {min(ratios):.2f} to {max(ratios):.2f} by seed)")
    say(f"    bar (at least 4): {'met' if mean >= 4 else 'NOT MET'}")
    rate, finals = run_population(task, settings, seeds)
    same = "" if not finals else f"; scores as alone: {'yes' if finals == list(columns['ours'][0]) else 'NO'}"
    rate_text = f"{rate:.0f} steps per second in all, {rate / np.mean(columns['SB3'][2]):.1f} times one agent of SB3"
    say(f"  {len(seeds)} seeds at once as one Population: {rate_text}{same}")


def choose(name):
    """SB3 alone: which settings it learns best with."""
    task = TASKS[name]
    say(f"\n== {task['title']}: settings for SB3, seeds {', '.join(map(str, CHOSEN_ON))}")
    for change in task["choices"]:
        shown = ", ".join(f"{key} {value:g}" for key, value in change.items()) or "as written"
        finals = []
        for seed in CHOSEN_ON:
            greedy, training, rate = run_sb3(task, {**task["settings"], **change}, seed)
            finals.append(greedy)
            say(f"  {shown}, seed {seed}: greedy {greedy:.1f}, last tenth {training:.1f}, {rate:.0f} steps/s")
        say(f"  {shown}: mean of greedy scores {np.mean(finals):.1f}")


def header():
    import stable_baselines3
    import torch

    with open("/proc/cpuinfo") as file:
        model = next((row.split(":")[1].strip() for row in file if row.startswith("model name")), platform.processor())
    versions = [f"spectral-rl {spectral_rl.__version__}", f"stable-baselines3 {stable_baselines3.__version__}"]
    versions += [f"PyTorch {torch.__version__}", f"Gymnasium {gymnasium.__version__}", f"NumPy {np.__version__}"]
    loads = " ".join(f"{value:.1f}" for value in os.getloadavg())
    say(f"# {model}, {os.cpu_count()} cores; {', '.join(versions)}, Python {platform.python_version()}")
    say(f"# threads: ours {THREADS}, SB3 {torch.get_num_threads()}, by turns; load average before: {loads}; {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="cartpole,follow,follow84", help="which, separated by commas")
    parser.add_argument("--seeds", default=",".join(map(str, REPORTED)), help="seeds, separated by commas")
    parser.add_argument("--sb3-threads", type=int, default=THREADS, help="threads for PyTorch; 1 on a machine that others use")
    parser.add_argument("--choose", action="store_true", help="SB3 alone with several settings on seeds 101 to 103")
    parser.add_argument("--no-clip", action="store_true", help="SB3 without its clipping of gradients, as ours")
    options = parser.parse_args()
    if options.no_clip:
        global MAX_GRAD_NORM
        MAX_GRAD_NORM = math.inf
    import torch

    torch.set_num_threads(options.sb3_threads)
    header()
    say(f"# SB3 clips the norm of gradients at {MAX_GRAD_NORM:g}")
    begun = time.perf_counter()
    names = options.tasks.split(",")
    unknown = [name for name in names if name not in TASKS]
    if unknown:
        parser.error(f"there is no task {unknown[0]!r}; there are {', '.join(TASKS)}")
    for name in names:
        if options.choose:
            if not TASKS[name].get("speed_alone"):
                choose(name)
        else:
            compare(name, [int(seed) for seed in options.seeds.split(",")])
    loads = " ".join(f"{value:.1f}" for value in os.getloadavg())
    say(f"\n# {time.perf_counter() - begun:.0f} s in all; load average after: {loads}")


if __name__ == "__main__":
    main()
