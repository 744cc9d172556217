"""Run directories as data."""

import os
import shlex
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from run_fixtures import catch_run, observations, spectral, train, unsealed, wait_until  # noqa: F401
from spectral_rl import Run

STATE = 'status = "{}"\nseconds = 1.0\n[[agents]]\nid = "popart-s1"\nframes = 100\nstatus = "{}"\nreason = "{}"\n'


@pytest.fixture
def small(tmp_path):
    """A copy of a run with one agent, to be damaged."""
    return train(tmp_path / "small", "--task", "pong-mini", "--agents", "popart", "--set", "hidden=8", frames=2000)


def test_what_a_run_says(catch_run):
    run = Run(catch_run)
    assert (run.task, run.status, run.frames) == ("catch-scale", "finished", 3000)
    assert run.seconds > 0
    assert run.settings["task"] == "catch-scale" and run.settings["hardware"]["cores"] >= 1
    assert run.settings["task_spec"]["actions"] == ["left", "stay", "right"]
    assert run.settings["agents"][0]["settings"]["hidden"] == "16"
    assert [agent.id for agent in run.agents] == ["spectral-s1", "spectral-s2", "popart-s1", "popart-s2"]
    agent = run.agents[1]
    assert (agent.name, agent.seed, agent.frames, agent.stopped, agent.codec) == ("spectral", 2, 3000, None, "spectral")
    assert agent.settings["base"] == 2.0 and agent.settings["batch"] == 8 and agent.settings["dueling"] is False
    assert "catch-scale" in repr(run) and "spectral-s2" in repr(agent)
    assert run.agent("popart-s2") is run.agents[3] and run.agent("popart", 2) is run.agents[3]
    for wrong in (("popart",), ("popart", 9), ("nobody",)):
        with pytest.raises(KeyError, match="spectral-s1"):
            run.agent(*wrong)


def test_columns(catch_run):
    agent = Run(str(catch_run)).agents[0]
    episodes, metrics = agent.episodes(), agent.metrics()
    assert list(episodes) == ["frame", "return", "score", "length"]
    assert {name: str(column.dtype) for name, column in episodes.items()} == {
        "frame": "int64", "return": "float64", "score": "float64", "length": "int64",
    }
    lines = (agent.path / "episodes.csv").read_text().splitlines()
    assert len(episodes["frame"]) == len(lines) - 1
    expected = np.array([[float(x) for x in line.split(",")] for line in lines[1:]])
    for index, column in enumerate(episodes.values()):
        assert np.array_equal(column, expected[:, index])
    assert len(metrics["frame"]) == 30 and metrics["updates"].dtype == np.int64
    assert np.isnan(metrics["sigma_0"][0]) and np.isfinite(metrics["sigma_0"][-1]), "no updates before learning starts"
    assert agent.td_errors() == {}, "the task has no player's score"
    policy = agent.policy()
    assert (policy.agent, policy.seed, policy.frames) == ("spectral", 1, 3000)


def test_td_errors(small):
    columns = Run(small).agents[0].td_errors()
    assert list(columns) == ["frame", "player_score", "abs_error", "abs_target", "samples"]
    assert columns["player_score"].dtype == np.int64 and columns["abs_error"].dtype == np.float64


def test_pandas_takes_columns(catch_run):
    pandas = pytest.importorskip("pandas", reason="SKIPPED: pandas is not installed")
    agent = Run(catch_run).agents[0]
    for columns in (agent.episodes(), agent.metrics(), agent.td_errors()):
        frame = pandas.DataFrame(columns)
        assert list(frame.columns) == list(columns)
        for name, column in columns.items():
            assert frame[name].dtype == column.dtype
            assert np.array_equal(frame[name].to_numpy(), column, equal_nan=column.dtype.kind == "f")


def test_polars_takes_columns(catch_run):
    polars = pytest.importorskip("polars", reason="SKIPPED: polars is not installed")
    agent = Run(catch_run).agents[0]
    for columns in (agent.episodes(), agent.metrics(), agent.td_errors()):
        frame = polars.DataFrame(columns)
        assert frame.columns == list(columns)
        for name, column in columns.items():
            assert np.array_equal(frame[name].to_numpy(), column, equal_nan=column.dtype.kind == "f")


def test_a_torn_line_counts_only_once_it_is_whole(small):
    table, state = small / "agents" / "popart-s1" / "episodes.csv", small / "state.toml"
    whole = len(Run(small).agents[0].episodes()["frame"])
    with open(table, "a") as file:
        file.write("2000,1")
    with pytest.raises(ValueError, match="rows were added"):
        Run(small)
    state.write_text(STATE.format("running", "running", ""))
    run = Run(small)
    assert run.status == "running" and len(run.agents[0].episodes()["frame"]) == whole
    with open(table, "a") as file:
        file.write(".5,1.5,10\n")
    assert len(run.agents[0].episodes()["frame"]) == whole + 1, "columns are read whenever they are asked for"
    run.reload()
    assert run.agents[0].frames == 2000, "episodes may be newer than the state"
    text = table.read_text()
    table.write_text(text + "1,1,1,1\n")
    with pytest.raises(ValueError, match="frames must not go back"):
        run.reload()
    table.write_text(text + "2000,x,1,1\n")
    with pytest.raises(ValueError, match="`return` is `x`, not a number"):
        run.agents[0].episodes()
    shutil.rmtree(small / "agents")
    assert Run(small).agents[0].episodes() == {}, "a run that was killed at once has no files"
    state.unlink()
    assert Run(small).agents[0].frames == 0
    state.write_text(STATE.format("finished", "stopped", "its values stopped being finite"))
    os.makedirs(table.parent)
    table.write_text("frame,return,score,length\n")
    run = Run(small)
    assert run.agents[0].stopped == "its values stopped being finite"
    assert len(run.agents[0].episodes()["frame"]) == 0
    with pytest.raises(FileNotFoundError, match="popart-s1 has no model: its values stopped being finite"):
        run.agents[0].policy()


def test_a_run_that_is_being_trained(tmp_path):
    out = tmp_path / "it's live"
    words = ["train", "--task", "pong-mini", "--agents", "clipped", "--frames", "100000000", "--device", "cpu"]
    words += ["--out", str(out), "--set", "log_frames=1000", "--set", "hidden=8", "--set", "checkpoint_seconds=1"]
    script = "from spectral_rl._command import main; main()"
    process = subprocess.Popen([sys.executable, "-c", script, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        seen = []

        def went_on():
            if (out / "run.toml").exists():
                run = Run(out)
                if run.agents[0].episodes().get("frame", np.zeros(0)).size and run.agents[0].frames > max(seen, default=0):
                    assert run.status == "running"
                    seen.append(run.agents[0].frames)
            return len(seen) == 3

        wait_until("three looks at it, each with more frames", went_on, process)
        run = Run(out)
        with pytest.raises(FileNotFoundError) as why:
            run.agents[0].policy()
        command = str(why.value).split("`")[1]
        assert shlex.split(command) == ["spectral", "resume", str(out)], "the command can be typed"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(Run(out).agents[0].metrics()["frame"]) >= 0
    finally:
        process.kill()
        process.wait()


def test_hostile_and_foreign_folders(small, tmp_path):
    with pytest.raises(FileNotFoundError, match="not a run directory"):
        Run(tmp_path)
    with pytest.raises(FileNotFoundError, match="not a run directory"):
        Run(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="not a run directory"):
        Run(small / "run.toml")
    text = unsealed((small / "run.toml").read_text())

    def refused(changed, match):
        (small / "run.toml").write_text(changed)
        with pytest.raises(ValueError, match=match):
            Run(small)

    refused("hello", "run.toml")
    refused("x = " + "[" * 100_000, "run.toml")
    refused(text.replace("format = 2", "format = 99"), "format 99 is not known")
    refused(text.replace('id = "popart-s1"', 'id = "../../x"'), "run.toml|state.toml")
    (small / "state.toml").unlink()
    refused(text.replace('id = "popart-s1"', 'id = "../../x"'), "is no agent's id")
    refused(text.replace('id = "popart-s1"', 'id = ""'), "is no agent's id")
    (small / "run.toml").write_bytes(b"\xff\xfe")
    with pytest.raises((ValueError, OSError), match="run.toml"):
        Run(small)


def test_a_run_of_a_task_that_is_not_built_in(small):
    """Data of runs on tasks that only another program has can be read, and so can their models."""
    text = unsealed((small / "run.toml").read_text())
    (small / "run.toml").write_text(text.replace('"pong-mini"', '"somebody/elses-v3"'))
    run = Run(small)
    assert run.task == "somebody/elses-v3"
    policy = run.agents[0].policy()
    assert policy.q_values(observations(policy, 2)).shape == (2, 3)


def test_the_report_is_that_of_the_command(catch_run, tmp_path):
    page = Run(catch_run).report(tmp_path / "ours")
    assert page == tmp_path / "ours" / "report.html"
    spectral("report", catch_run, "--out", tmp_path / "theirs")
    ours, theirs = (sorted(os.listdir(tmp_path / name)) for name in ("ours", "theirs"))
    assert ours == theirs and len(ours) > 5
    for name in ours:
        one, other = ((tmp_path / folder / name).read_bytes() for folder in ("ours", "theirs"))
        if name == "summary.json":
            one, other = (text.replace(b"/ours/", b"/").replace(b"/theirs/", b"/") for text in (one, other))
        assert one == other, name
    assert Run(catch_run).report(tmp_path / "cut", title="Half", at_frames=1500).is_file()
    with pytest.raises(OSError):
        Run(catch_run).report(tmp_path / "ours" / "report.html")
