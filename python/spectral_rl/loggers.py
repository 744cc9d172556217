"""Callbacks that hand episodes and metrics to other programs."""

import math
import os

from spectral_rl.callbacks import Callback

__all__ = ["TensorBoardLogger", "WandbLogger"]

_NOT_METRICS = ("agent", "seed", "frame")
_EPISODE = ("score", "return", "length")


def _id(info):
    return f"{info['agent']}-s{info['seed']}"


def _episode(info):
    return _numbers({f"episode/{key}": info[key] for key in _EPISODE if key in info})


def _row(row):
    return _numbers({f"train/{key}": value for key, value in row.items() if key not in _NOT_METRICS})


def _numbers(values):
    """What is a finite number: other values cannot be drawn."""
    found = {}
    for key, value in values.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            found[key] = number
    return found


def _summary_writer():
    """PyTorch's writer or tensorboardX's, whichever is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise ImportError(
                "TensorBoardLogger needs a writer of TensorBoard's files: `pip install tensorboardX`, "
                "or `pip install torch tensorboard`"
            ) from None
    return SummaryWriter


class TensorBoardLogger(Callback):
    """Writes episodes (``episode/score``, …) and metrics (``train/loss``, …) for TensorBoard, by frame.

    Every agent gets a folder of its own in ``log_dir``, named as in a run directory: ``spectral-s1``. A run directory that
    Spectral writes has such files already; this is for training without one, or for a place of your own.
    """

    def __init__(self, log_dir):
        self.log_dir = os.fspath(log_dir)
        self._make = _summary_writer()
        self._writers = {}

    def _write(self, info, values):
        name = _id(info)
        if name not in self._writers:
            self._writers[name] = self._make(os.path.join(self.log_dir, name))
        for tag, value in values.items():
            self._writers[name].add_scalar(tag, value, int(info["frame"]))

    def on_episode(self, info):
        self._write(info, _episode(info))

    def on_log(self, row):
        self._write(row, _row(row))

    def on_checkpoint(self, info):
        for writer in self._writers.values():
            writer.flush()

    def on_training_end(self):
        for writer in self._writers.values():
            writer.close()
        # Training may go on: a new writer then adds a file to the same folder.
        self._writers = {}


class WandbLogger(Callback):
    """Logs episodes and metrics to Weights & Biases, by frame; every agent and seed is a run of its own.

    Keyword arguments are those of ``wandb.init``, such as ``project``. A run's name is that of the agent and its seed unless
    ``name`` is given; ``config`` gets both.
    """

    def __init__(self, **init):
        try:
            import wandb
        except ImportError:
            raise ImportError("WandbLogger needs the package wandb: `pip install wandb`") from None
        self._wandb = wandb
        self._init = init
        self._runs = {}

    def _run(self, info):
        name = _id(info)
        if name not in self._runs:
            config = {"agent": info["agent"], "seed": info["seed"], **(self._init.get("config") or {})}
            # Several agents train at once, so one run must not end another.
            run = self._wandb.init(**{"name": name, "reinit": "create_new", **self._init, "config": config})
            run.define_metric("frame")
            run.define_metric("*", step_metric="frame")
            self._runs[name] = run
        return self._runs[name]

    def _write(self, info, values):
        if values:
            self._run(info).log({**values, "frame": int(info["frame"])})

    def on_episode(self, info):
        self._write(info, _episode(info))

    def on_log(self, row):
        self._write(row, _row(row))

    def on_training_end(self):
        runs, self._runs = self._runs, {}
        for run in runs.values():
            run.finish()
