"""A run as agents and populations hold it: task, native training, interrupts, progress."""

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections import namedtuple

import gymnasium

from spectral_rl import _native, _spaces
from spectral_rl._observing import ObservationReader
from spectral_rl.policies import Policy

AgentNow = namedtuple("AgentNow", "name seed id frames score stopped saturated")

# What people know from elsewhere, and what it is called here.
_ELSEWHERE = {
    "gamma": "discount",
    "lr": "learning_rate",
    "buffer_size": "replay",
    "batch_size": "batch",
    "train_freq": "update_period",
    "target_update_interval": "target_period",
    "n_steps": "n_step",
    "exploration_initial_eps": "epsilon_start",
    "exploration_final_eps": "epsilon_final",
    "exploration_fraction": "epsilon_frames (a number of steps, not a fraction)",
    "policy": "network ('auto', 'mlp', 'small-cnn', 'nature')",
    "policy_kwargs": "network and hidden (such as hidden='64,64')",
    "net_arch": "hidden (such as hidden='64,64')",
    "gradient_steps": "update_period (one update each time, so a shorter period gives more of them)",
    "optimize_memory_usage": "nothing: observations are always stored once",
    "verbose": "progress_bar of learn()",
    "tensorboard_log": "run_dir (every run has TensorBoard's files in it)",
    "max_grad_norm": "nothing: gradients are not clipped",
    "n_envs": "Population: one agent has one environment",
    "tau": "nothing: the target network is copied every target_period steps",
}


# What belongs to the run as a whole, and where it is said here.
_ELSEWHERE |= {
    "task": "env, the first argument",
    "agents": "Population, for several agents",
    "seeds": "Population, for several seeds; one agent has a seed",
    "frames": "total_timesteps of learn()",
}


class AgentStopped(RuntimeError):
    """The agent cannot go on: its values stopped being finite, or the task's reward was not a number."""


def setting_text(value):
    """A setting as files and flags have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(setting_text(item) for item in value)
    if isinstance(value, float):
        return repr(value)
    return str(value)


def _folder(path):
    """A folder's name as text."""
    path = os.fsdecode(path)
    if not path:
        raise ValueError("run_dir is empty: give a folder, or None for a temporary one")
    file = os.path.join(path, "run.toml")
    if os.path.exists(file) and not os.path.isfile(file):
        raise ValueError(f"{file} is not a file")
    return path


def _remove(folder, process):
    """Removes a temporary folder, unless this is only a copy of the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


class Session:
    """The native run, opened when it is first needed."""

    def __init__(self, env, agents, seeds, *, run_dir, env_kwargs, stack, vectorize, reproducible, settings):
        for key in settings:
            if key in _ELSEWHERE:
                there = _ELSEWHERE[key]
                looked_for = there if there.startswith("nothing") else f"what you look for is {there}"
                raise TypeError(f"there is no setting '{key}' here: {looked_for.removeprefix('nothing: ')}")
        if not agents or not seeds:
            raise ValueError("there must be at least one agent and one seed")
        for name in agents:
            if not isinstance(name, str):
                raise ValueError(f"agents are named, as 'spectral' is, not {name!r}")
        for seed in seeds:
            if not 0 <= seed < 2**63:
                raise ValueError(f"a seed must be from 0 to 2**63 - 1, not {seed}")
        count = len(agents) * len(seeds)
        more = self._take(env, env_kwargs, stack, vectorize, count, reproducible)
        settings = {**settings, **more}
        self._chosen = set(settings)
        if self._is_vector:
            if settings.setdefault("device", "cpu") != "cpu":
                raise ValueError(
                    f"a vector environment is stepped for agents on the CPU, not on device={settings['device']!r}: pass a "
                    "function that makes an environment instead"
                )
        disposable = run_dir is None
        if disposable:
            folder = tempfile.mkdtemp(prefix="spectral-")
            self._temporary = weakref.finalize(self, _remove, folder, os.getpid())
            run_dir = os.path.join(folder, "run")
            # Nobody resumes it: replay need not be written.
            settings.setdefault("checkpoint", "light")
            settings.setdefault("checkpoint_seconds", 1e6)
        self.run_dir = _folder(run_dir)
        pairs = [(key, setting_text(value)) for key, value in settings.items()]
        self._native = _native.Training(self._task, list(agents), list(seeds), pairs, self.run_dir, disposable)
        self._target = 0
        self._known = self._training.open()

    @classmethod
    def found(cls, env, run_dir, env_kwargs, stack, reproducible):
        """The run of one agent that is in a folder already."""
        session = cls.__new__(cls)
        session._take(env, env_kwargs, stack, None, 1, reproducible)
        session._chosen = {"learning_starts", "epsilon_frames"}
        session.run_dir = _folder(run_dir)
        session._native = _native.Training.found(session._task, session.run_dir)
        session._target = min(agent.frames for agent in session.agents())
        session._known = True
        return session

    def _take(self, env, env_kwargs, stack, vectorize, count, reproducible):
        """Takes the task, and returns settings that come with it."""
        if not isinstance(stack, int) or stack < 1:
            raise ValueError(f"stack is {stack!r}, and must be 1 or more")
        self._told, self._process = set(), os.getpid()
        task, observations, actions, settings = _spaces.make_task(
            env, env_kwargs=env_kwargs, stack=stack, vectorize=vectorize, agents=count, reproducible=reproducible
        )
        self._env, self._env_kwargs, self._task, self._stack = env, env_kwargs, task, stack
        self._spaces = None if observations is None else (observations, actions)
        self._is_vector = vectorize is not None or isinstance(env, gymnasium.vector.VectorEnv)
        return settings

    @property
    def _training(self):
        # Threads and locks of the run are in the process that made it; a copy of it would wait for them for ever.
        if os.getpid() != self._process:
            raise RuntimeError("this agent was made in another process: make one in this process, with a run_dir of its own")
        return self._native

    @property
    def spaces(self):
        return self._spaces or (None, None)

    def agents(self):
        return [AgentNow(*row) for row in self._training.agents()]

    def notes(self):
        return self._training.notes()

    def settings(self, number):
        return dict(self._training.settings(number))

    def close(self):
        self._training.close()

    def cancel(self):
        """Ends training, with a checkpoint, after the current step; from another thread."""
        self._training.cancel()

    def policy(self, number):
        native = self._training.policy(number)
        reader = None if self._spaces is None else ObservationReader.of_spaces(*self._spaces, self._stack)
        epsilon = float(self.settings(number).get("epsilon_final", 0.0))
        return Policy(native, reader, epsilon=epsilon, seed=self.agents()[number].seed)

    def evaluation_env(self):
        """An environment to play without learning."""
        if isinstance(self._task, str):
            from spectral_rl import tasks

            return gymnasium.make(tasks.gymnasium_id(self._task), **dict(self._training.task_settings()))
        if isinstance(self._env, gymnasium.vector.VectorEnv):
            raise ValueError("pass an environment to evaluate in, as evaluate(env=...): the agent's own is a vector environment")
        if isinstance(self._env, gymnasium.Env):
            if self._env.spec is not None:
                return gymnasium.make(self._env.spec)
            raise ValueError("pass an environment to evaluate in, as evaluate(env=...): the agent is in the midst of its own")
        return self._task.take()

    def _warn_of_short_runs(self, steps):
        settings = self.settings(0)
        starts, falls = int(settings["learning_starts"]), int(settings["epsilon_frames"])
        if steps < starts + falls and not {"learning_starts", "epsilon_frames"} <= self._chosen:
            warnings.warn(
                f"{steps:,} steps are few for these settings: learning starts after {starts:,} (learning_starts), and exploration "
                f"falls until {starts + falls:,} (epsilon_frames)",
                stacklevel=5,
            )

    def learn(self, steps, callback, progress_bar, owner):
        """Trains for this many more steps."""
        if isinstance(steps, bool) or int(steps) != steps or steps < 0:
            raise ValueError(f"total_timesteps is {steps!r}, and must be a whole number from 0")
        steps = int(steps)
        if not self._known and steps > 0:
            self._known = True
            self._warn_of_short_runs(steps)
        target = self._target + steps
        relay = None if callback is None else _Relay(callback, self.agents())
        bar = _Bar(target, len(self.agents())) if progress_bar else None
        if relay is not None:
            relay.callback.on_training_start(owner)
        try:
            with _Interrupts(self._training) as interrupts:
                finished = self._training.learn(
                    target,
                    relay,
                    relay is not None and relay.wants_steps,
                    relay is not None and relay.wants_episodes,
                    None if bar is None else bar.show,
                )
                interrupts.raise_if_any()
        finally:
            if bar is not None:
                bar.close()
            if relay is not None:
                relay.callback.on_training_end()
        agents = self.agents()
        # A callback that ended it early leaves the rest for the next call.
        self._target = target if finished else max(agent.frames for agent in agents)
        for agent in agents:
            if agent.saturated and agent.id not in self._told:
                self._told.add(agent.id)
                warnings.warn(
                    f"{agent.id} has met {agent.saturated:,} rewards beyond what it can represent, which it cut off: a larger "
                    "max_frequency makes room",
                    stacklevel=3,
                )
        stopped = [agent for agent in agents if agent.stopped]
        if stopped and len(agents) == 1:
            raise AgentStopped(stopped[0].stopped)
        for agent in stopped:
            warnings.warn(f"{agent.id} was stopped: {agent.stopped}", stacklevel=3)


class _Relay:
    """Calls the user's callback with dictionaries."""

    def __init__(self, callback, agents):
        from spectral_rl import callbacks

        self.callback = callbacks.as_callback(callback)
        wants = callbacks.CallbackList([self.callback]).wants
        self.wants_steps, self.wants_episodes = wants("on_step"), wants("on_episode")
        self._agents = agents

    def _info(self, agent, **values):
        who = self._agents[agent]
        return {"agent": who.name, "seed": who.seed, "id": who.id, **values}

    def step(self, agent, frame, action, reward, terminated, truncated):
        return self.callback.on_step(
            self._info(
                agent, frame=frame, action=action, reward=reward, terminated=terminated, truncated=truncated
            )
        )

    def episode(self, agent, frame, total, score, length):
        return self.callback.on_episode(
            self._info(agent, frame=frame, score=score, length=length, **{"return": total})
        )

    def log(self, agent, row):
        counts = {key: int(row[key]) for key in ("frame", "updates", "episodes", "saturated") if key in row}
        return self.callback.on_log(self._info(agent, **{**row, **counts}))

    def checkpoint(self, seconds, size):
        return self.callback.on_checkpoint({"seconds": seconds, "bytes": size})


class _Interrupts:
    """Ctrl-C ends training after the current step, with a checkpoint, and then raises; a second one raises at once."""

    def __init__(self, training):
        self._training = training
        self._before = None
        self._caught = False

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            # Only where Python's own handler, or a notebook's, would raise.
            if callable(handler):
                self._before = handler
                signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, number, frame):
        if self._caught:
            self._before(number, frame)
        self._caught = True
        self._training.cancel()

    def raise_if_any(self):
        if self._caught:
            raise KeyboardInterrupt

    def __exit__(self, kind, *_):
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


class _Bar:
    """Steps, rate and time left on standard error: one line that changes, or where that cannot be shown, one now and then."""

    def __init__(self, target, agents):
        self._alive = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._period = 0.2 if self._alive else 10.0
        self._target, self._agents = target * agents, agents
        self._begun, self._from, self._last = time.monotonic(), None, 0.0

    def show(self, rows):
        now = time.monotonic()
        done = sum(frames for frames, _ in rows)
        if self._from is None:
            self._from = done
        if now - self._last < self._period and done < self._target:
            return
        self._last = now
        rate = (done - self._from) / max(now - self._begun, 1e-9)
        left = (self._target - done) / rate if rate > 0 else float("inf")
        scores = [score for _, score in rows if score is not None]
        score = f"  score {sum(scores) / len(scores):.4g}" if scores else ""
        filled = int(24 * min(done / max(self._target, 1), 1.0))
        bar = "█" * filled + "·" * (24 - filled)
        text = f"{bar} {done:,}/{self._target:,}  {rate:,.0f} steps/s  {_clock(left)} left{score}"
        sys.stderr.write(f"\r{text:<79}" if self._alive else f"{text}\n")
        sys.stderr.flush()

    def close(self):
        if self._alive:
            sys.stderr.write("\n")
            sys.stderr.flush()


def _clock(seconds):
    if seconds > 359_999:
        return "--:--"
    seconds = int(seconds)
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
