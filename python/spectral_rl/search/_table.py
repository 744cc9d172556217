"""What a search has found, as text."""

import math
import os
import shlex
import statistics

from spectral_rl._session import setting_text
from spectral_rl.tasks import native_name

# Student's t, 97.5%, for 1 to 30 degrees of freedom; the normal's beyond.
_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_FRESH = 10


def interval(scores):
    """The ends of the 95% interval of a mean over seeds, by Student's t; ``None`` for a single seed.

    >>> from spectral_rl.search._table import interval
    >>> interval([1.0, 3.0])
    (-10.706, 14.706)
    """
    if len(scores) < 2:
        return None, None
    freedom = len(scores) - 1
    factor = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else 1.96
    mean = math.fsum(scores) / len(scores)
    half = factor * statistics.stdev(scores) / math.sqrt(len(scores))
    return mean - half, mean + half


def _number(value):
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _param(value):
    return f"{value:.4g}" if isinstance(value, float) else setting_text(value)


def _path(path):
    """A path as short as it can be from here."""
    near = os.path.relpath(path)
    return path if near.startswith("..") else near


def _seeds(seeds):
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _columns(rows):
    """Rows of equally many words, under each other."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(word.rjust(width) for word, width in zip(row, widths)).rstrip() for row in rows]


def text(search):
    """What :meth:`Search.show` prints."""
    wanted, rows = search.description, search.results()
    states = {state: [row for row in rows if row["state"] == state] for state in ("finished", "failed", "training", "waiting")}
    lines = [
        f"{_path(str(search.folder))}: {wanted.agent} on {wanted.task}, {wanted.frames:,} frames, {_seeds(wanted.seeds)}",
        f"{wanted.trials} trials: " + ", ".join(f"{len(found)} {state}" for state, found in states.items()),
    ]
    lines += [
        f"population {population.number}: {population.progress():.0%} trained"
        for population in search.populations()
        if population.values() is None
    ]
    finished = sorted(states["finished"], key=lambda row: -row["value"])
    if finished:
        table = [["trial", "value", "95% interval", *wanted.space]]
        for row in finished:
            known = row["low"] is not None
            ends = f"{_number(row['low'])} to {_number(row['high'])}" if known else "–"
            values = [_param(row["params"][key]) for key in wanted.space]
            table.append([str(row["trial"]), _number(row["value"]), ends, *values])
        lines += ["", *_columns(table)]
    if states["failed"]:
        lines += ["", "failed:"]
        for row in states["failed"]:
            values = ", ".join(f"{key} = {_param(value)}" for key, value in row["params"].items())
            lines.append(f"  trial {row['trial']} ({values}): {row['failed']}")
    if finished:
        lines += ["", *_anew(search, finished[0], len(finished))]
    return "\n".join(lines)


def _anew(search, best, count):
    """How to train the best trial with seeds that had no part in choosing it."""
    wanted, name = search.description, f"runs/trial-{best['trial']}"
    chosen = f"the highest of {count} values, which chance flatters" if count > 1 else "a single value"
    first = (max(wanted.seeds) // 1000 + 1) * 1000 + 1
    last = first + _FRESH - 1
    lines = [f"Trial {best['trial']} has {chosen}. Train it with seeds that no trial has used:"]
    own = [key for key in wanted.settings if key not in search.agent_settings()[1] and key != "threads"]
    if native_name(wanted.task) is not None:
        pairs = [*((key, wanted.settings[key]) for key in own), *wanted.env_kwargs.items()]
        words = ["spectral", "train", "--task", native_name(wanted.task), "--agents", _path(best["agent"])]
        words += ["--seeds", f"{first}..{last}", "--frames", str(wanted.frames)]
        words += [word for key, value in pairs for word in ("--set", f"{key}={setting_text(value)}")]
        return [*lines, "  " + shlex.join([*words, "--out", name])]
    keywords = "".join(f", {key}={wanted.settings[key]!r}" for key in own)
    keywords += f", env_kwargs={wanted.env_kwargs!r}" if wanted.env_kwargs else ""
    keywords += f", stack={wanted.stack}" if wanted.stack > 1 else ""
    call = f"spectral_rl.Population({wanted.task!r}, agents=[{_path(best['agent'])!r}], seeds=range({first}, {last + 1})"
    return [*lines, f"  {call}, run_dir={name!r}{keywords}).learn({wanted.frames})"]
