"""What is searched and how, as `search.toml` has it: written once, read by every worker."""

import json
import math
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from spectral_rl._session import setting_text
from spectral_rl.search import _space

FILE = "search.toml"
_FORMAT = 1
_SAMPLERS = ("tpe", "random")
# What is not the same for a whole search, and where it belongs.
_NOT_SETTINGS = {
    "agents": "agent: a search is about one agent",
    "codec": "agent: an agent is what its codec makes it",
    "env": "task",
    "run_dir": "the folder of the search, which holds all runs",
}


@dataclass(frozen=True)
class Description:
    """A search, without what has come of it."""

    task: str
    agent: str
    seeds: list
    frames: int
    trials: int
    population: int
    sampler: str
    sampler_seed: int
    stack: int
    env_kwargs: dict
    settings: dict
    space: dict = field(hash=False)

    def differs_from(self, other):
        """The first thing in which two searches differ, or ``None``."""
        for name in asdict(self):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                return f"{name} is {_shown(mine)} there, and {_shown(theirs)} is asked for"
        return None

    def write(self, folder, version):
        """Writes the file."""
        lines = [
            "# A search for settings, written when it was made. Workers read it, and nothing changes it.",
            f"format = {_FORMAT}",
            f"version = {toml_value(version)}",
        ]
        tables = []
        for name in asdict(self):
            value = getattr(self, name)
            if name == "space":
                value = {key: wanted.text() for key, wanted in value.items()}
            if isinstance(value, dict):
                tables.append(f"\n[{name}]")
                tables += [f"{toml_key(key)} = {toml_value(one)}" for key, one in value.items()]
            else:
                lines.append(f"{name} = {toml_value(value)}")
        Path(folder, FILE).write_text("\n".join(lines + tables) + "\n", encoding="utf-8")

    @staticmethod
    def read(folder):
        """Reads the file of a search's folder."""
        path = Path(folder, FILE)
        try:
            table = read_toml(path)
        except FileNotFoundError:
            raise FileNotFoundError(f"{folder} is no search: it has no {FILE}") from None
        if table.get("format") != _FORMAT:
            raise ValueError(f"{path} has format {table.get('format')!r}, and this version reads format {_FORMAT}")
        names = set(Description.__dataclass_fields__)
        missing = names - set(table)
        if missing:
            raise ValueError(f"{path} does not say {', '.join(sorted(missing))}: it is no file that create() wrote")
        return Description.checked(**{name: table[name] for name in names})

    @staticmethod
    def checked(*, task, agent, seeds, frames, trials, population, sampler, sampler_seed, stack, env_kwargs, settings, space):
        """A description of values of the right types, or an error that says what is wrong."""
        if not isinstance(task, str):
            raise TypeError(
                f"task is {task!r}: a search is read by other programs, so name the task, as 'pong-mini', 'CartPole-v1' or "
                "'my_module:MyTask-v0' (a task that my_module registers with Gymnasium)"
            )
        agent = os.fspath(agent)
        if not isinstance(agent, str) or not agent or "," in agent:
            raise ValueError(f"agent is {agent!r}: name one agent, as 'spectral', or the TOML file of one")
        if isinstance(seeds, int) and not isinstance(seeds, bool):
            seeds = list(range(1, _whole("seeds", seeds, 1) + 1))
        if isinstance(seeds, str) or not hasattr(seeds, "__iter__"):
            raise TypeError(f"seeds is {seeds!r}: give a count, such as 2, or a list, such as [1, 2]")
        seeds = [_whole("a seed", seed, 0, 2**63 - 1) for seed in seeds]
        if not seeds or len(set(seeds)) != len(seeds):
            raise ValueError(f"seeds is {seeds}: give at least one seed, and none of them twice")
        if sampler not in _SAMPLERS:
            raise ValueError(f"sampler is {sampler!r}: it can be {' or '.join(map(repr, _SAMPLERS))}")
        for name, table in (("env_kwargs", env_kwargs), ("settings", settings)):
            for key, value in table.items():
                if key in _NOT_SETTINGS:
                    raise TypeError(f"there is no setting '{key}' here: what you look for is {_NOT_SETTINGS[key]}")
                if key.startswith("agent."):
                    raise TypeError(f"there is no setting '{key}' here: a search is about one agent, so leave 'agent.…' out")
                items = value if isinstance(value, (list, tuple)) else [value]
                if not all(isinstance(item, (bool, int, float, str)) for item in items):
                    raise TypeError(f"{name}: {key} is {value!r}, which no file can hold: give a number, a text or a list")
        device = str(settings.get("device", "auto"))
        if not re.fullmatch(r"auto|cpu|cpu-lockstep|cuda(:\d+)?", device):
            raise ValueError(f"device is {device!r}: it can be auto, cpu, cuda or cuda:N")
        return Description(
            task=task,
            agent=agent,
            seeds=seeds,
            frames=_whole("frames", frames, 1),
            trials=_whole("trials", trials, 1, 1_000_000),
            population=_whole("population", population, 1, 10_000),
            sampler=sampler,
            sampler_seed=_whole("sampler_seed", sampler_seed, 0, 2**32 - 1),
            stack=_whole("stack", stack, 1),
            env_kwargs={key: list(value) if isinstance(value, tuple) else value for key, value in env_kwargs.items()},
            settings=_texts(settings),
            space=_checked_space(space, settings),
        )


def _whole(name, value, least, most=2**63 - 1):
    # NumPy's whole numbers too, but neither truth values nor 3.0.
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}, and must be a whole number")
    value = value.__index__()
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}, and must be {least} or more" + (f", {most} at most" if value > most else ""))
    return value


def _texts(table):
    return {key: setting_text(value) if isinstance(value, (list, tuple)) else value for key, value in table.items()}


def _checked_space(space, settings):
    if not isinstance(space, dict) or not space:
        raise TypeError("space says what is searched, as {'learning_rate': search.log(1e-5, 1e-3)}")
    checked = {}
    for key, wanted in space.items():
        if not isinstance(key, str):
            raise TypeError(f"space names settings, as 'learning_rate', not {key!r}")
        if isinstance(wanted, str):
            try:
                wanted = _space.parse(wanted)
            except (TypeError, ValueError) as error:
                raise type(error)(f"space: {key}: {error}") from None
        if not isinstance(wanted, (_space.Range, _space.Choice)):
            raise TypeError(
                f"space: {key} is {wanted!r}: make it with search.log, search.uniform, search.integer or search.choice"
            )
        if key in settings:
            raise ValueError(f"'{key}' is searched and is set to {settings[key]!r} as well: leave one of them out")
        checked[key] = wanted
    return checked


def _shown(value):
    if isinstance(value, dict):
        inner = (f"{key}={one.text() if hasattr(one, 'text') else one}" for key, one in value.items())
        return "{" + ", ".join(inner) + "}"
    return repr(value)


def toml_key(key):
    """A key of a TOML table."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)


def toml_value(value):
    """A plain value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    if isinstance(value, float):
        return repr(float(value))  # NumPy's floats are floats whose repr is another
    if isinstance(value, int):
        return repr(value)
    # A basic string of TOML has the escapes of JSON, and needs one more.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_toml(path):
    """A TOML file as a dict."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        try:
            import tomli as tomllib
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                'Python 3.10 cannot read TOML by itself: pip install "spectral-rl[search]"', name="tomli"
            ) from None
    with open(path, "rb") as file:
        try:
            return tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is no valid TOML: {error}") from None
