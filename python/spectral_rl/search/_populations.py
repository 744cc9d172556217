"""The populations of a search: one folder each, with its trials, their agents' files and the run."""

import contextlib
import errno
import json
import math
import os
import shutil
import tempfile
from pathlib import Path

from spectral_rl.data import Run

FOLDER = "populations"
_TRIALS, _VALUES = "trials.json", "values.json"


def write_atomically(path, text):
    """Writes a file so that readers see all of it or nothing, whatever happens."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _umask():
    # It can only be read by setting it.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def built_aside(final):
    """A new folder that gets its name when it is complete. Raises ``FileExistsError`` if the name is taken by then."""
    building = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        building.chmod(0o777 & ~_umask())
        yield building
        try:
            # Neither takes the place of a folder that has something in it; of two that do this at once, one fails.
            os.rename(building, final)
        except OSError as error:
            # An NFS client may still remember that there was no such folder; the server has answered the call itself.
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY) or final.exists():
                raise FileExistsError(f"{final} is there already") from error
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)


class PopulationDir:
    """One population."""

    def __init__(self, search_folder, number):
        self.number = number
        self.path = Path(search_folder, FOLDER, f"{number:04}")
        self.run_dir = self.path / "run"

    @staticmethod
    def all(search_folder):
        """Those that there are. They are made in order, so none is missing in between."""
        found = []
        while (population := PopulationDir(search_folder, len(found) + 1)).path.is_dir():
            found.append(population)
        return found

    def make(self, trials, write_agents):
        """Makes the folder. False if another worker was faster."""
        try:
            with built_aside(self.path) as building:
                write_agents(building)
                rows = {"population": self.number, "trials": trials}
                write_atomically(building / _TRIALS, json.dumps(rows, indent=1) + "\n")
        except FileExistsError:
            return False
        return True

    def trials(self):
        """Its trials: ``number``, ``params``, ``agent`` (a file's name) and ``refused`` (why it cannot be trained)."""
        return _read(self.path / _TRIALS)["trials"]

    def agents(self):
        """The files of the agents that are trained."""
        return [str(self.path / trial["agent"]) for trial in self.trials() if trial["refused"] is None]

    def values(self):
        """What has come of its trials, by number, once all of them are done; before that ``None``."""
        try:
            return {row["number"]: row for row in _read(self.path / _VALUES)["trials"]}
        except FileNotFoundError:
            return None

    def write_values(self, rows):
        """Says that the population is done."""
        write_atomically(self.path / _VALUES, json.dumps({"trials": rows}, indent=1) + "\n")

    def progress(self):
        """Which part of its frames is trained, from 0 to 1; 0 before its first checkpoint."""
        with contextlib.suppress(OSError, ValueError):
            run = Run(self.run_dir)
            planned = run.frames * len(run.agents)
            return sum(run.frames if agent.stopped else agent.frames for agent in run.agents) / max(planned, 1)
        return 0.0

    def outcomes(self, seeds):
        """What has come of each trial, from the finished run: a row of ``values.json`` each."""
        run = Run(self.run_dir) if self.agents() else None
        rows = []
        for trial in self.trials():
            row = {"number": trial["number"], "value": None, "scores": {}, "failed": trial["refused"]}
            if trial["refused"] is None:
                for seed in seeds:
                    agent = run.agent(Path(trial["agent"]).stem, seed)
                    score = None if agent.stopped else final_score(agent.episodes(), run.frames)
                    if score is None or not math.isfinite(score):
                        row["failed"] = f"{agent.id}: {agent.stopped or 'no episode has ended'}"
                        break
                    row["scores"][str(seed)] = score
                else:
                    row["value"] = math.fsum(row["scores"].values()) / len(seeds)
            rows.append(row)
        return rows

    def drop_checkpoints(self):
        """Removes what only a run that goes on needs: replay may be large, and a search has many runs."""
        shutil.rmtree(self.run_dir / "checkpoints", ignore_errors=True)


def final_score(episodes, frames):
    """The mean score of the episodes that end in the last tenth of the frames, or of the last one if none does.

    It is the final score of reports.

    >>> from spectral_rl.search._populations import final_score
    >>> final_score({"frame": [40, 91, 99], "score": [1.0, 2.0, 4.0]}, 100)
    3.0
    """
    scores = [float(score) for score in episodes["score"]]
    if not scores:
        return None
    last = [score for frame, score in zip(episodes["frame"], scores) if frame > frames - frames // 10]
    last = last or scores[-1:]
    return math.fsum(last) / len(last)


def _read(path):
    text = Path(path).read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
