"""Searches: what is proposed, trained, told, shown and refused."""

import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from run_fixtures import PATIENCE, spectral
from search_common import SHORT, assert_complete, outcome, shown, tiny, told, worker

from spectral_rl import search
from spectral_rl.search._space import parse


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


def written(study):
    """When each file of a search was written, and how long it is."""
    files = {path: path.stat() for path in study.folder.rglob("*") if path.is_file()}
    return {path: (known.st_mtime_ns, known.st_size) for path, known in files.items()}


def test_a_search_that_is_there_is_opened(done, capsys):
    again = tiny(done.folder)
    assert outcome(again) == outcome(done)
    # Nothing is left to do: no file is written, and nothing is said.
    before = written(done)
    again.work()
    assert written(done) == before and capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="holds another search.*frames is 600 there, and 700 is asked for"):
        tiny(done.folder, frames=700)
    with pytest.raises(ValueError, match="holds another search.*space"):
        tiny(done.folder, space={"learning_rate": "log:1e-5:1e-3"})


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
    text = shown(study)
    assert "\nfailed:\n" in text and failed["failed"] in text


def test_no_trial_of_a_population_need_be_good(tmp_path):
    space = {"learning_rate": search.choice(1e29, 1e30)}
    study = tiny(tmp_path / "s", space=space, trials=2, population=2, seeds=1).work(log=lambda line: None)
    assert_complete(study)
    assert study.best is None and "2 failed" in shown(study)


def test_a_population_is_given_up(tmp_path):
    # Its agents need more memory than there is.
    space = {"replay": search.choice(10**13, 10**14), "n_step": search.choice(1, 3)}
    fixed = {key: value for key, value in SHORT.items() if key != "replay"}
    study = search.create(tmp_path / "s", task="catch-scale", space=space, frames=600, trials=3, population=2, **fixed)
    stuck = worker(study)
    out, _ = stuck.communicate(timeout=PATIENCE)
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
    line = shown(study).splitlines()[-1].strip().replace("range(1001, 1011)", "range(1001, 1003)")
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


def test_it_is_shown(done, capsys, monkeypatch):
    text = shown(done)
    monkeypatch.chdir(Path(__file__).parent)
    done.show()
    assert capsys.readouterr().out == text
    assert "spectral on catch-scale, 600 frames, seeds 1, 2" in text and "7 trials: 7 finished" in text
    table = [line.split() for line in text.splitlines() if re.match(r" +\d", line)]
    assert [int(row[0]) for row in table] == [row["trial"] for row in sorted(done.results(), key=lambda r: -r["value"])]
    words = [sys.executable, "-m", "spectral_rl.search", "show", done.folder, "--json"]
    rows = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert [row["value"] for row in rows] == [row["value"] for row in done.results()]


def test_the_winner_is_trained_anew_by_the_command_that_it_prints(done, tmp_path):
    line = shown(done).splitlines()[-1]
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
