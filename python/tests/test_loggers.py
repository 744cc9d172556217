"""Callbacks and loggers."""

import glob
import os
import subprocess
import sys

import pytest
from run_fixtures import PATIENCE

from spectral_rl.callbacks import Callback, CallbackList, TensorBoardLogger, WandbLogger, as_callback

EPISODES = [
    {"agent": agent, "seed": seed, "frame": frame, "score": frame / 10, "return": -frame, "length": 9}
    for frame in (9, 18, 27)
    for agent, seed in (("spectral", 1), ("popart", 2))
]
ROW = {"agent": "spectral", "seed": 1, "frame": 30, "loss": 0.5, "q_mean": float("nan"), "score_mean": None, "updates": 4}


class Recorder(Callback):
    def __init__(self, answer=None):
        self.calls, self.answer = [], answer

    def on_training_start(self, agent):
        self.calls.append(("start", agent))

    def on_step(self, info):
        self.calls.append(("step", info))
        return self.answer

    def on_episode(self, info):
        self.calls.append(("episode", info))
        return self.answer

    def on_log(self, row):
        self.calls.append(("log", row))

    def on_checkpoint(self, info):
        self.calls.append(("checkpoint", info))

    def on_training_end(self):
        self.calls.append(("end",))


def play(callback):
    """Calls every hook as a trainer does."""
    callback.on_training_start("agent")
    answers = [callback.on_step({"frame": 1}), *map(callback.on_episode, EPISODES)]
    callback.on_log(ROW)
    callback.on_checkpoint({"frame": 30})
    callback.on_training_end()
    return answers


def test_a_list_calls_all_and_stops_if_one_says_so():
    for answer in (None, True, 0, "", [], False):
        one, other = Recorder(answer), Recorder()
        answers = play(as_callback([one, (other,)]))
        assert all(found is (answer is not False) for found in answers), answer
        assert one.calls == other.calls
        assert [call[0] for call in one.calls] == ["start", "step"] + ["episode"] * 6 + ["log", "checkpoint", "end"]


def test_functions_are_called_at_every_step():
    seen = []
    callback = as_callback(lambda info: seen.append(info["frame"]))
    assert callback.on_step({"frame": 3}) is None and seen == [3]
    assert callback.on_episode(EPISODES[0]) is None and seen == [3]
    assert as_callback(lambda info: False).on_step({}) is False


def test_what_nobody_reads_is_known():
    class Ends(Callback):
        def on_episode(self, info):
            pass

    assert as_callback(None).wants("on_step") is False
    both = CallbackList([Ends(), [lambda info: None]])
    assert [both.wants(hook) for hook in ("on_step", "on_episode", "on_log")] == [True, True, False]
    patched = Callback()
    patched.on_log = print
    assert CallbackList([patched]).wants("on_log")


def test_what_is_no_callback_is_refused():
    for wrong in (3, "text", object(), Callback, [None, 5], {}):
        with pytest.raises(TypeError, match="a callback is a Callback"):
            as_callback(wrong)
    callback = Callback()
    assert as_callback(callback) is callback


def test_all_finish_even_if_one_fails():
    class Fails(Callback):
        def on_training_end(self):
            raise RuntimeError("first")

    last = Recorder()
    with pytest.raises(RuntimeError, match="first"):
        CallbackList([Fails(), last]).on_training_end()
    assert last.calls == [("end",)]


def read_events(folder):
    """Scalars of a folder, by tag, with a reader of TensorBoard's format of our own: records of protobuf."""
    import struct

    from tensorboardX.proto.event_pb2 import Event

    scalars = {}
    for path in sorted(glob.glob(os.path.join(folder, "events.*"))):
        data = open(path, "rb").read()
        at = 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            event = Event.FromString(data[at + 12 : at + 12 + length])
            at += 16 + length
            for value in event.summary.value:
                scalars.setdefault(value.tag, []).append((event.step, value.simple_value))
    return scalars


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX", reason="SKIPPED: tensorboardX is not installed")
    logger = TensorBoardLogger(tmp_path / "logs")
    play(logger)
    assert sorted(os.listdir(tmp_path / "logs")) == ["popart-s2", "spectral-s1"]
    found = read_events(tmp_path / "logs" / "spectral-s1")
    assert found["episode/score"] == [(9, pytest.approx(0.9)), (18, pytest.approx(1.8)), (27, pytest.approx(2.7))]
    assert found["episode/length"] == [(9, 9.0), (18, 9.0), (27, 9.0)]
    assert (found["train/loss"], found["train/updates"]) == ([(30, 0.5)], [(30, 4.0)])
    assert not {"train/q_mean", "train/score_mean", "train/seed", "train/frame"} & set(found)
    # Training that goes on writes on.
    logger.on_episode({**EPISODES[0], "frame": 99})
    logger.on_training_end()
    assert [step for step, _ in read_events(tmp_path / "logs" / "spectral-s1")["episode/score"]][-1] == 99


def test_a_missing_package_is_named():
    """In a process of its own, where the packages cannot be found."""
    script = (
        "import sys\n"
        "for name in ('torch', 'torch.utils.tensorboard', 'tensorboardX', 'wandb'): sys.modules[name] = None\n"
        "from spectral_rl.callbacks import TensorBoardLogger, WandbLogger\n"
        "for make in (lambda: TensorBoardLogger('x'), lambda: WandbLogger(project='x')):\n"
        "    try: make()\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert "pip install tensorboardX" in first and "pip install wandb" in second


def test_wandb_offline(tmp_path):
    pytest.importorskip("wandb", reason="SKIPPED: wandb is not installed")
    # In a process of its own: W&B starts services and patches streams.
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_loggers import play\n"
        "from spectral_rl.callbacks import WandbLogger\n"
        "play(WandbLogger(project='spectral-test', config={'note': 'mine'}, dir=sys.argv[2]))\n"
    )
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "HOME": str(tmp_path)}
    words = [sys.executable, "-c", script, os.path.dirname(__file__), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    files = glob.glob(str(tmp_path / "wandb" / "offline-run-*" / "*.wandb"))
    assert len(files) == 2, "one run per agent and seed"
    contents = [open(path, "rb").read() for path in files]
    for data in contents:
        for word in (b"spectral-test", b"episode/score", b"episode/return", b"note"):
            assert word in data, word
    names = [[name in data for data in contents] for name in (b"spectral-s1", b"popart-s2")]
    assert sorted(map(sum, names)) == [1, 1] and names[0] != names[1]
    assert sum(b"train/loss" in data for data in contents) == 1
    assert not any(b"train/q_mean" in data for data in contents)


def test_loggers_are_at_home_in_callbacks():
    from spectral_rl import loggers

    assert TensorBoardLogger is loggers.TensorBoardLogger and WandbLogger is loggers.WandbLogger
