"""Small searches and what is expected of them, for several files of tests."""

import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from run_fixtures import PATIENCE

pytest.importorskip("optuna", reason='SKIPPED: Optuna is not installed (pip install "spectral-rl[search]")')

from spectral_rl import search  # noqa: E402

SHORT = {"learning_starts": 100, "epsilon_frames": 300, "hidden": "16", "batch": 8, "replay": 500, "device": "cpu"}
SPACE = {"learning_rate": search.log(1e-5, 1e-2), "n_step": search.choice(1, 3)}


def tiny(folder, **changes):
    """A search of a few seconds."""
    wanted = {"task": "catch-scale", "space": SPACE, "frames": 600, "trials": 7, "population": 3, "seeds": 2, **SHORT}
    return search.create(folder, **{**wanted, **changes})


def outcome(study):
    """All that a search has found, without its folder."""
    keys = ("trial", "state", "value", "scores", "params", "population", "failed")
    return [{key: row[key] for key in keys} for row in study.results()]


def told(study):
    """How often each trial's end is in the journal."""
    rows = [json.loads(line) for line in (study.folder / "journal.log").read_text().splitlines()]
    ends = Counter(row["trial_id"] for row in rows if row["op_code"] == 6 and row["state"] in (1, 2, 3))
    return [ends[number] for number in range(study.description.trials)]


def assert_complete(study):
    """Every trial has one end, which is the same in the journal and in the files."""
    results = study.results()
    assert {row["state"] for row in results} <= {"finished", "failed"}
    assert told(study) == [1] * len(results)
    for row, known in zip(results, study.study().get_trials()):
        assert (known.value, known.params) == (row["value"], row["params"])
        assert known.state.name == ("COMPLETE" if row["state"] == "finished" else "FAIL")
    count = math.ceil(len(results) / study.description.population)
    assert sorted(path.name for path in (study.folder / "populations").glob("[0-9]*")) == [
        f"{number + 1:04}" for number in range(count)
    ]


def worker(study, *flags, **options):
    words = [sys.executable, "-m", "spectral_rl.search", "work", study.folder, *flags]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def ends_well(process):
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out
    return out


def shown(study):
    words = [sys.executable, "-m", "spectral_rl.search", "show", study.folder]
    done = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
