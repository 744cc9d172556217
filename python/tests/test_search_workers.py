"""Workers of a search: several of them, and whatever stops, kills or overtakes them."""

import errno
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from run_fixtures import PATIENCE, wait_for_metrics, wait_until
from search_common import assert_complete, ends_well, outcome, shown, tiny, told, worker

from spectral_rl.search._lock import JournalLock
from spectral_rl.search._populations import PopulationDir, built_aside


def test_workers_share_a_search(tmp_path):
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
    program = "import sys; from spectral_rl.search import _journal, __main__; _journal._GRACE = 5; sys.exit(__main__.main())"
    words = [sys.executable, "-c", program, "work", study.folder, "--quiet"]
    for attempt in itertools.count():
        processes = [
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(workers)
        ]
        if attempt == 0:
            # Whatever the machine's pace: the first kill comes while something is trained.
            begun = time.monotonic()
            wait_until("a run", lambda: list(study.folder.glob("populations/*/run/run.toml")), processes[0])
            start = time.monotonic() - begun
        else:
            # Half of the kills come while they start, propose and tell; the longer it takes, the later the others come.
            latest = 1.5 * 1.1**attempt
            time.sleep(start * (chance.uniform(0.2, 1.2) if attempt % 2 else chance.uniform(0.8, latest)))
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
    wait_for_metrics(study.folder / "populations/0001/run", process)
    # Twice, as schedulers do it.
    process.send_signal(kind)
    process.send_signal(kind)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "interrupted and saved" in out, out
    run = study.folder / "populations/0001/run"
    assert 'status = "interrupted"' in (run / "state.toml").read_text()
    assert list((run / "checkpoints").iterdir())
    assert [row["state"] for row in study.results()] == ["training", "training"]
    assert "population 1: " in shown(study)
    assert told(study) == [0, 0]


def test_a_worker_whose_run_is_anothers_waits_or_leaves(tmp_path):
    study = tiny(tmp_path / "s", trials=2, population=2, frames=50_000_000, log_frames=200)
    busy = worker(study, "--quiet")
    wait_for_metrics(study.folder / "populations/0001/run", busy)
    with pytest.raises(ValueError, match="a worker trains population 1: stop it first"):
        study.give_up(1)
    assert "others train what is left: population 1" in ends_well(worker(study, "--no-wait"))
    waits = worker(study, "--quiet")
    assert "waiting for others" in waits.stdout.readline()
    waits.terminate()
    out, _ = waits.communicate(timeout=PATIENCE)
    assert waits.returncode == 130, out
    busy.terminate()
    busy.communicate(timeout=PATIENCE)
    assert busy.returncode == 130


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


def test_checkpoints_that_a_killed_worker_has_left_are_removed(tmp_path):
    study = tiny(tmp_path / "s", trials=3, population=2).work(log=lambda line: None)
    # As a kill between a population's values and the removal of its checkpoints leaves it.
    left = study.folder / "populations/0001/run/checkpoints"
    left.mkdir()
    (left / "000000000600.checkpoint").write_bytes(b"replay")
    before = outcome(study)
    study.work(log=lambda line: None)
    assert not left.exists() and outcome(study) == before


def test_a_population_that_was_done_meanwhile_is_left_as_it_is(tmp_path, monkeypatch):
    study = tiny(tmp_path / "s", trials=2, population=2).work(log=lambda line: None)
    before, lines, values = outcome(study), [], PopulationDir.values

    def looked_before_it_was_done(looks):
        left = iter([None] * looks)
        monkeypatch.setattr(PopulationDir, "values", lambda population: next(left, values(population)))

    looked_before_it_was_done(2)
    study.work(log=lines.append)
    looked_before_it_was_done(1)
    with pytest.raises(ValueError, match="population 1 is done already"):
        study.give_up(1)
    assert lines == [] and outcome(study) == before


def test_a_folder_that_a_client_does_not_see_yet_is_taken(tmp_path, monkeypatch):
    (tmp_path / "populations/0001").mkdir(parents=True)
    (tmp_path / "populations/0001/trials.json").write_text("others'")
    # As an NFS client answers from its cache for a while after another one has made the folder.
    monkeypatch.setattr(Path, "exists", lambda path, **options: False)
    with pytest.raises(FileExistsError, match="is there already"), built_aside(tmp_path / "populations/0001"):
        pass
    assert not PopulationDir(tmp_path, 1).make([], lambda folder: None)
    assert os.listdir(tmp_path / "populations") == ["0001"]
    assert (tmp_path / "populations/0001/trials.json").read_text() == "others'"


def test_a_worker_that_slept_with_the_lock_goes_on(tmp_path, monkeypatch):
    study = tiny(tmp_path / "s", trials=2, population=2)
    path = str(study.folder / "journal.log")
    others, fsync = [], os.fsync

    def sleep_once(handle):
        # The journal is written while the lock is held, and the system may take long; others then take the worker for dead.
        if not others and os.path.exists(path + ".lock"):
            others.append(JournalLock(path, 0.1))
            others[0].acquire()
            others[0].release()
        fsync(handle)

    monkeypatch.setattr(os, "fsync", sleep_once)
    study.work(log=lambda line: None)
    assert len(others) == 1 and not os.path.exists(path + ".lock")
    assert_complete(study)


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "journal.log"
    path.write_bytes(b"{}\n")
    return str(path)


def lock_of(journal):
    return Path(journal + ".lock")


def test_a_lock_that_others_have_taken_is_left_to_them(journal):
    one, other = JournalLock(journal, 0.1), JournalLock(journal, 0.1)
    assert one.acquire() and other.acquire()
    theirs = lock_of(journal).read_bytes()
    one.release()
    assert lock_of(journal).read_bytes() == theirs
    # Two take a dead worker's lock, and one of them is late: it gives back what it has not looked at.
    one._remove((b"a dead worker's", 0))
    assert lock_of(journal).read_bytes() == theirs
    other.release()
    one.release()
    assert os.listdir(os.path.dirname(journal)) == ["journal.log"]


def test_only_pauses_count_until_a_lock_is_taken(journal, monkeypatch):
    # Where a whole node is asleep, clocks go on and nobody does anything.
    lock, pauses = lock_of(journal), []
    lock.touch()

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 20:
            lock.write_text("another")

    monkeypatch.setattr("spectral_rl.search._lock.time.sleep", pause)
    mine = JournalLock(journal, 30)
    mine.acquire()
    assert sum(pauses[20:]) > 30 > sum(pauses[20:-2]), pauses
    mine.release()
    assert not lock.exists()


def test_a_lock_that_cannot_be_written_is_not_left(journal, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patches, pytest.raises(OSError, match="No space left"):
        patches.setattr(os, "write", full)
        JournalLock(journal, 30).acquire()
    assert not lock_of(journal).exists()


def test_who_has_lost_the_lock_cuts_nothing_off(journal):
    Path(journal).write_bytes(b"{}\n{half")
    lock = JournalLock(journal, 30)
    lock._cut_half_line()
    assert Path(journal).read_bytes() == b"{}\n{half"
    lock.acquire()
    assert Path(journal).read_bytes() == b"{}\n"
    lock.release()


def test_the_lock_is_one_workers_at_a_time(journal):
    count = Path(journal).with_name("count")
    count.write_text("0")

    def work():
        lock = JournalLock(journal, PATIENCE)
        for _ in range(25):
            lock.acquire()
            number = int(count.read_text())
            time.sleep(0.001)
            count.write_text(str(number + 1))
            lock.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count.read_text() == "100"
