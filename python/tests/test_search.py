"""Searches: what is proposed, trained and told, by one worker and by several, whatever kills them."""

import itertools
import json
import math
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from run_fixtures import spectral

pytest.importorskip("optuna", reason='SKIPPED: Optuna is not installed (pip install "spectral-rl[search]")')

from spectral_rl import search  # noqa: E402
from spectral_rl.search._space import parse  # noqa: E402

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
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, out
    return out


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished search."""
    return tiny(tmp_path_factory.mktemp("search") / "done").work(log=lambda line: None)


def test_a_search_tries_what_it_says(done):
    assert_complete(done)
    rows = done.results()
    assert all(row["state"] == "finished" and sorted(row["scores"]) == [1, 2] for row in rows)
    assert all(1e-5 <= row["params"]["learning_rate"] <= 1e-2 and row["params"]["n_step"] in (1, 3) for row in rows)
    assert len({row["params"]["learning_rate"] for row in rows}) == 7
    assert [row["population"] for row in rows] == [1, 1, 1, 2, 2, 2, 3]
    assert done.best["value"] == max(row["value"] for row in rows)
    assert all(row["value"] == sum(row["scores"].values()) / 2 for row in rows)
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)
    # What only a run that goes on needs is gone; models and tables are there.
    run = done.folder / "populations/0001/run"
    assert not (run / "checkpoints").exists() and len(list(run.glob("agents/*/model.safetensors"))) == 6
    assert not [path for path in done.folder.glob("**/.*-*") if not path.name.startswith(".claim-")]


def test_values_are_the_final_scores_of_reports(done, tmp_path):
    spectral("report", done.folder / "populations", "--out", tmp_path)
    lines = (tmp_path / "seeds.csv").read_text().splitlines()
    names = lines[0].split(",")
    scores = [dict(zip(names, line.split(","))) for line in lines[1:]]
    assert len(scores) == 14
    final = next(name for name in names if "final" in name or name == "score")
    for row in scores:
        trial = int(row["agent"].removeprefix("trial-"))
        assert float(row[final]) == pytest.approx(done.results()[trial]["scores"][int(row["seed"])], rel=1e-9)


def test_the_same_search_gives_the_same_trials(done, tmp_path):
    again = tiny(tmp_path / "again").work(log=lambda line: None)
    assert outcome(again) == outcome(done)
    other = tiny(tmp_path / "other", sampler_seed=2, trials=3).work(log=lambda line: None)
    assert other.results()[0]["params"] != done.results()[0]["params"]


def test_optuna_learns_from_values(tmp_path):
    # Of 24 random numbers, half would be in the lower half of the logarithms, where nothing is learned.
    study = tiny(tmp_path / "s", space={"learning_rate": search.log(1e-12, 1e-2)}, trials=24, population=4, frames=2_500)
    rows = study.work(log=lambda line: None).results()
    low = [sum(row["params"]["learning_rate"] < 1e-7 for row in part) for part in (rows[:12], rows[12:])]
    assert low[1] < 6, low


def test_a_search_that_is_there_is_opened(done, capsys):
    again = tiny(done.folder)
    assert outcome(again) == outcome(done)
    begun = time.monotonic()
    again.work()
    assert time.monotonic() - begun < 5 and capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="holds another search.*frames is 600 there, and 700 is asked for"):
        tiny(done.folder, frames=700)
    with pytest.raises(ValueError, match="holds another search.*space"):
        tiny(done.folder, space={"learning_rate": "log:1e-5:1e-3"})


def test_workers_share_a_search(done, tmp_path):
    # Random proposals do not depend on values, so that it does not matter who comes when.
    alone = tiny(tmp_path / "alone", sampler="random", trials=14, population=2).work(log=lambda line: None)
    shared = tiny(tmp_path / "shared", sampler="random", trials=14, population=2)
    outputs = [ends_well(process) for process in [worker(shared, "--quiet") for _ in range(3)]]
    assert outcome(shared) == outcome(alone)
    assert_complete(shared)
    dones = Counter(number for out in outputs for number in re.findall(r"population (\d+) is done", out))
    assert dones == {str(number): 1 for number in range(1, 8)}, outputs
    # Each with Optuna's proposals, which then depend on who comes when.
    shared = tiny(tmp_path / "tpe", trials=14, population=2)
    for process in [worker(shared, "--quiet") for _ in range(2)]:
        ends_well(process)
    assert_complete(shared)


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_any_moment_it_goes_on(tmp_path, workers):
    changes = {"trials": 9, "population": 2, "frames": 2_000, "checkpoint_seconds": 0.2}
    changes["sampler"] = "tpe" if workers == 1 else "random"
    whole = tiny(tmp_path / "whole", **changes).work(log=lambda line: None)
    study = tiny(tmp_path / "killed", **changes)
    chance, kills, output = random.Random(1), 0, ""
    # A worker that dies with the journal's lock keeps others waiting; here not for 30 seconds.
    program = "import sys; from spectral_rl.search import _journal, __main__; _journal._GRACE = 3; sys.exit(__main__.main())"
    words = [sys.executable, "-c", program, "work", study.folder, "--quiet"]
    for attempt in itertools.count():
        processes = [
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(workers)
        ]
        if attempt == 0:
            # Whatever the machine's pace: the first kill comes while something is trained.
            while not list(study.folder.glob("populations/*/run/run.toml")) and all(p.poll() is None for p in processes):
                time.sleep(0.01)
        else:
            # Half of the kills come while they start, propose and tell; the longer it takes, the later they come.
            time.sleep(chance.uniform(0.3, 1.5) if attempt % 2 else chance.uniform(1.0, 2.5 + 0.5 * attempt))
        running = [process for process in processes if process.poll() is None]
        for process in running:
            process.kill()
        kills += len(running)
        for process in processes:
            out, _ = process.communicate()
            output += out
            assert process.returncode in (0, -signal.SIGKILL), out
        if len(running) < workers:
            break
        assert attempt < 60, output
    ends_well(worker(study, "--quiet"))
    assert kills >= 1
    assert_complete(study)
    assert outcome(study) == outcome(whole)


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_the_same_command_goes_on(tmp_path, kind):
    study = tiny(tmp_path / "s", trials=2, population=2, frames=50_000_000, log_frames=200)
    process = worker(study, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    metrics = study.folder / "populations/0001/run/agents/trial-1-s2/metrics.csv"
    end = time.monotonic() + 60
    while not (metrics.exists() and metrics.stat().st_size > 500):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.05)
    # Twice, as schedulers do it.
    process.send_signal(kind)
    process.send_signal(kind)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted and saved" in out, out
    run = study.folder / "populations/0001/run"
    assert 'status = "interrupted"' in (run / "state.toml").read_text()
    assert list((run / "checkpoints").iterdir())
    assert [row["state"] for row in study.results()] == ["training", "training"]
    assert "population 1: " in _shown(study)
    assert told(study) == [0, 0]


def test_a_worker_whose_run_is_anothers_waits_or_leaves(tmp_path):
    study = tiny(tmp_path / "s", trials=2, population=2, frames=50_000_000)
    busy = worker(study, "--quiet")
    lock = study.folder / "populations/0001/run/checkpoints"
    end = time.monotonic() + 60
    while not lock.exists():
        assert time.monotonic() < end and busy.poll() is None
        time.sleep(0.05)
    with pytest.raises(ValueError, match="a worker trains population 1: stop it first"):
        study.give_up(1)
    assert "others train what is left: population 1" in ends_well(worker(study, "--no-wait"))
    waits = worker(study, "--quiet")
    assert "waiting for others" in waits.stdout.readline()
    waits.terminate()
    out, _ = waits.communicate(timeout=60)
    assert waits.returncode == 130, out
    busy.terminate()
    busy.communicate(timeout=60)
    assert busy.returncode == 130


def test_trials_fail_alone(tmp_path):
    # A step as large as the largest ends in numbers that are not finite; a replay of 20 has no room for a minibatch of 64.
    space = {"learning_rate": search.choice(1e-3, 1e30), "replay": search.choice(20, 500), "batch": search.choice(8, 64)}
    fixed = {key: value for key, value in SHORT.items() if key not in space}
    study = search.create(
        tmp_path / "s", task="catch-scale", space=space, frames=600, trials=16, population=16, sampler="random", **fixed
    )
    lines = []
    study.work(log=lines.append)
    assert_complete(study)
    for row in study.results():
        fits = row["params"]["replay"] == 500 or row["params"]["batch"] == 8
        good = row["params"]["learning_rate"] == 1e-3
        assert (row["state"] == "finished") == (fits and good), row
        if not fits:
            assert "minibatch" in row["failed"] and row["value"] is None, row
        elif not good:
            assert "finite" in row["failed"] and "-s1" in row["failed"], row
    states = Counter(row["state"] for row in study.results())
    assert states["finished"] and states["failed"] > 4
    assert any("failed: " in line for line in lines)
    failed = next(row for row in study.results() if row["state"] == "failed")
    assert study.study().get_trials()[failed["trial"]].user_attrs["failed"] == failed["failed"]
    shown = _shown(study)
    assert "\nfailed:\n" in shown and failed["failed"] in shown


def test_no_trial_of_a_population_need_be_good(tmp_path):
    space = {"learning_rate": search.choice(1e29, 1e30)}
    study = tiny(tmp_path / "s", space=space, trials=2, population=2, seeds=1).work(log=lambda line: None)
    assert_complete(study)
    assert study.best is None and "2 failed" in _shown(study)


def test_a_population_is_given_up(tmp_path):
    # Its agents need more memory than there is.
    space = {"replay": search.choice(10**13, 10**14), "n_step": search.choice(1, 3)}
    fixed = {key: value for key, value in SHORT.items() if key != "replay"}
    study = search.create(tmp_path / "s", task="catch-scale", space=space, frames=600, trials=3, population=2, **fixed)
    stuck = worker(study)
    out, _ = stuck.communicate(timeout=60)
    assert stuck.returncode == 2 and "memory" in out and "Traceback" not in out, out
    with pytest.raises(ValueError, match="no population 2: 1 have begun"):
        study.give_up(2)
    study.give_up(1, "too large")
    with pytest.raises(ValueError, match="population 1 is done already"):
        study.give_up(1)
    assert [row["failed"] for row in study.results()] == ["given up: too large"] * 2 + [None]
    assert told(study) == [1, 1, 0]


def test_gymnasium_tasks_are_searched(tmp_path):
    study = tiny(tmp_path / "s", task="CartPole-v1", trials=3, population=2, env_kwargs={"sutton_barto_reward": False})
    study.work(log=lambda line: None)
    assert_complete(study)
    # The command that it prints for the best trial is a program.
    line = _shown(study).splitlines()[-1].strip().replace("range(1001, 1011)", "range(1001, 1003)")
    program = f"import spectral_rl\n{line}\nprint(len(spectral_rl.Run('runs/trial-{study.best['trial']}').agents))"
    out = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert out.returncode == 0 and out.stdout.strip() == "2", out.stderr


def test_a_task_of_a_module_is_searched(tmp_path):
    (tmp_path / "my_tasks.py").write_text(
        "import gymnasium\nfrom own_tasks import Walk\ngymnasium.register('MyWalk-v0', entry_point=Walk)\n"
    )
    path = os.pathsep.join([str(tmp_path), os.path.dirname(__file__)])
    flags = "--task my_tasks:MyWalk-v0 --agent clipped --space learning_rate=log:1e-4:1e-2 --trials 2 --population 2 --frames 500"
    fixed = "--set learning_starts=100 --set epsilon_frames=300 --set hidden=16 --env length=5"
    for words in (["create", "s", *flags.split(), *fixed.split()], ["work", "s"], ["show", "s"]):
        done = subprocess.run(
            [sys.executable, "-m", "spectral_rl.search", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert_complete(search.load(tmp_path / "s"))
    assert "2 finished" in done.stdout and "env_kwargs={'length': 5}" in done.stdout


def _shown(study):
    words = [sys.executable, "-m", "spectral_rl.search", "show", study.folder]
    done = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_shown(done, capsys, monkeypatch):
    shown = _shown(done)
    monkeypatch.chdir(Path(__file__).parent)
    done.show()
    assert capsys.readouterr().out == shown
    assert "spectral on catch-scale, 600 frames, seeds 1, 2" in shown and "7 trials: 7 finished" in shown
    table = [line.split() for line in shown.splitlines() if re.match(r" +\d", line)]
    assert [int(row[0]) for row in table] == [row["trial"] for row in sorted(done.results(), key=lambda r: -r["value"])]
    words = [sys.executable, "-m", "spectral_rl.search", "show", done.folder, "--json"]
    rows = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert [row["value"] for row in rows] == [row["value"] for row in done.results()]


def test_the_winner_is_trained_anew_by_the_command_that_it_prints(done, tmp_path):
    line = _shown(done).splitlines()[-1]
    words = shlex.split(line)
    assert words[0] == "spectral" and "1001..1010" in words
    words[words.index("--out") + 1] = str(tmp_path / "anew")
    words[words.index("1001..1010")] = "1..2"
    spectral(*words[1:])
    import spectral_rl

    best = done.best
    for agent in spectral_rl.Run(tmp_path / "anew").agents:
        # With the same seeds it is the same agent.
        trained = spectral_rl.Run(done.folder / f"populations/{best['population']:04}/run").agent(agent.id)
        assert agent.episodes()["score"].tolist() == trained.episodes()["score"].tolist()
        assert {**agent.settings} == {**trained.settings}


def test_what_the_journal_has_lost_is_entered_again(tmp_path):
    study = tiny(tmp_path / "s", trials=3, population=2).work(log=lambda line: None)
    journal = study.folder / "journal.log"
    lines = journal.read_text().splitlines(keepends=True)
    ends = [i for i, line in enumerate(lines) if json.loads(line)["op_code"] == 6 and json.loads(line)["state"] == 1]
    del lines[ends[1]]
    journal.write_text("".join(lines))
    assert told(study) == [1, 0, 1]
    before = outcome(study)
    study.work(log=lambda line: None)
    assert_complete(study)
    assert outcome(study) == before


def test_a_line_that_a_dying_worker_left_half_written_is_cut_off(tmp_path):
    study = tiny(tmp_path / "s", trials=2, population=2)
    with open(study.folder / "journal.log", "ab") as file:
        file.write(b'{"op_code":6,"worker_id":"dead","tri')
    study.work(log=lambda line: None)
    assert_complete(study)


def test_settings_that_a_gpu_wants_shared_are_searched_on_the_cpu(tmp_path):
    fixed = {key: value for key, value in SHORT.items() if key not in ("batch", "device")}
    wanted = {"task": "catch-scale", "frames": 600, "trials": 2, "population": 2, **fixed}
    space = {"batch": search.choice(8, 16), "learning_rate": search.log(1e-4, 1e-3)}
    with pytest.raises(ValueError, match="must share batch, and it is searched: train on the CPU"):
        search.create(tmp_path / "s", space=space, device="cuda", **wanted)
    with pytest.raises(ValueError, match="must share hidden"):
        bare = {key: value for key, value in wanted.items() if key != "hidden"}
        search.create(tmp_path / "s", space={"hidden": search.choice([8], [8, 8])}, device="cpu-lockstep", **bare)
    assert not (tmp_path / "s").exists()
    # Networks as small as these are trained on the CPU anyway: all workers do so, whatever they find.
    study = search.create(tmp_path / "s", space=space, **wanted)
    assert search.load(study.folder).description.settings["device"] == "cpu"
    study.work(log=lambda line: None)
    assert_complete(study)
    # Learning rates may differ behind a GPU's pipeline.
    study = search.create(
        tmp_path / "rates", space={"learning_rate": space["learning_rate"]}, device="cpu-lockstep", **wanted, batch=8
    ).work(log=lambda line: None)
    assert_complete(study)


def test_what_cannot_be_searched_is_refused(tmp_path, done):
    for changes, error, words in [
        ({"space": {"learning_rat": search.log(1e-5, 1e-3)}}, ValueError, "space: learning_rat = .*'learning_rate'"),
        ({"space": {"learning_rate": search.uniform(-1, 1)}}, ValueError, "space: learning_rate = -1.0: .*learning_rate"),
        ({"space": {"n_step": search.uniform(1, 3)}}, ValueError, "space: n_step = 1.76"),
        ({"space": {"n_step": search.integer(0, 3)}}, ValueError, "space: n_step = 0: "),
        ({"space": {"dueling": search.choice(True, "perhaps")}}, ValueError, "space: dueling = perhaps: "),
        ({"space": {"epsilon_final": 3}}, TypeError, "make it with search.log"),
        ({"space": {"n_step": "log:1"}}, ValueError, "space: n_step: 'log:1' is no range: write log:LOW:HIGH"),
        ({"space": {"codec": search.choice("popart", "spectral")}}, ValueError, "one agent at a time"),
        ({"space": {"hidden": search.choice(8, 16)}}, ValueError, "'hidden' is searched and is set to '16' as well"),
        ({"space": {}}, TypeError, "space says what is searched"),
        ({"task": "pogn-mini"}, Exception, "pogn-mini"),
        ({"task": lambda: None}, TypeError, "name the task"),
        ({"agent": "spectrl"}, ValueError, "'spectral'"),
        ({"agent": "spectral,popart"}, ValueError, "name one agent"),
        ({"seeds": 0}, ValueError, "seeds is 0"),
        ({"seeds": "5"}, TypeError, "give a count"),
        ({"seeds": [1, 1]}, ValueError, "none of them twice"),
        ({"frames": 1.5}, TypeError, "frames is 1.5, and must be a whole number"),
        ({"trials": 0}, ValueError, "trials is 0"),
        ({"population": True}, TypeError, "population is True"),
        ({"sampler": "grid"}, ValueError, "'tpe' or 'random'"),
        ({"device": "gpu"}, ValueError, "cuda:N"),
        ({"gamma": 0.9}, TypeError, "discount"),
        ({"bach": 8}, ValueError, "'batch'"),
        ({"agents": ["spectral"]}, TypeError, "agent: a search is about one agent"),
        ({"hidden": {"a": 1}}, TypeError, "which no file can hold"),
    ]:
        try:
            tiny(tmp_path / "s", **changes)
        except error as refusal:
            assert re.search(words, str(refusal)), (changes, refusal)
        else:
            pytest.fail(f"{changes} were taken")
        assert not list(tmp_path.iterdir()), changes
    with pytest.raises(ValueError, match="comma"):
        tiny(tmp_path / "a,b")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(ValueError, match="holds no search and is left as it is"):
        tiny(tmp_path / "other")
    for folder in ("other", "nowhere"):
        with pytest.raises(FileNotFoundError, match=r"is no search: it has no search\.toml"):
            search.load(tmp_path / folder)
    (tmp_path / "other" / "search.toml").write_text("format = 1\ntask = [")
    with pytest.raises(ValueError, match="search.toml is no valid TOML"):
        search.load(tmp_path / "other")
    (tmp_path / "other" / "search.toml").write_text("format = 2\n")
    with pytest.raises(ValueError, match="has format 2"):
        search.load(tmp_path / "other")


def test_ranges(tmp_path):
    for text in ["log:1e-05:0.001", "uniform:-1.0:2.5", "integer:1:5", "integer-log:8:512", "choice:32:64", "choice:true:false:x"]:
        assert parse(text).text() == text
    assert parse("choice:64:64,64").values == (64, "64,64") == search.choice([64], [64, 64]).values
    for wrong, error in [
        (lambda: search.log(0, 1), ValueError),
        (lambda: search.log(1, 1), ValueError),
        (lambda: search.log("a", "b"), TypeError),
        (lambda: search.uniform(2, 1), ValueError),
        (lambda: search.uniform(0, math.inf), ValueError),
        (lambda: search.uniform(0, math.nan), ValueError),
        (lambda: search.integer(1.0, 2), TypeError),
        (lambda: search.integer(0, 8, log=True), ValueError),
        (lambda: search.choice(1), ValueError),
        (lambda: search.choice(1, 1), ValueError),
        (lambda: search.choice([1, 2]), TypeError),
        (lambda: search.choice(None, 1), TypeError),
        (lambda: search.choice("a:b", "c"), ValueError),
        (lambda: parse("lin:1:2"), ValueError),
        (lambda: parse("log:a:b"), TypeError),
        (lambda: parse(""), ValueError),
    ]:
        with pytest.raises(error):
            wrong()


def test_the_command_says_what_is_wrong(tmp_path):
    for words, code, expected in [
        (["work", "nowhere"], 3, "is no search"),
        (["show", "nowhere"], 3, "is no search"),
        (["create", "s", "--task", "catch-scale", "--space", "n_step=log:5:1"], 2, "the second number must be larger"),
        (["create", "s", "--task", "catch-scale", "--space", "n_step"], 2, "not of the form key=value"),
        (["create", "s", "--task", "catch-scale"], 2, "--space"),
        (["dance"], 2, "invalid choice"),
    ]:
        done = subprocess.run(
            [sys.executable, "-m", "spectral_rl.search", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == code and expected in done.stderr, (words, done.stderr)
        assert "Traceback" not in done.stderr


def test_without_optuna_it_says_what_to_install(tmp_path):
    program = (
        "import sys; sys.modules['optuna'] = None\n"
        "from spectral_rl import search\n"
        "try: search.create('s', task='catch-scale', space={'n_step': search.integer(1, 3)})\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert 'pip install "spectral-rl[search]"' in done.stdout and not list(tmp_path.iterdir())


def test_files_of_a_search_are_for_people_too(done):
    text = (done.folder / "search.toml").read_text()
    assert 'learning_rate = "log:1e-05:0.01"' in text and "seeds = [1, 2]" in text
    trial = done.results()[4]
    agent = Path(trial["agent"]).read_text()
    assert agent.startswith('codec = "spectral"\n') and f"learning_rate = {trial['params']['learning_rate']!r}\n" in agent
