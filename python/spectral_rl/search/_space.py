"""What is searched: ranges and choices, their texts, and what Optuna calls them."""

import math
import re
from dataclasses import dataclass

from spectral_rl._session import setting_text

__all__ = ["Choice", "Range", "choice", "integer", "log", "parse", "uniform"]

_FORMS = "log:LOW:HIGH, uniform:LOW:HIGH, integer:LOW:HIGH, integer-log:LOW:HIGH or choice:VALUE:VALUE"


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; made by :func:`log`, :func:`uniform` and :func:`integer`."""

    kind: str
    low: float
    high: float

    def text(self):
        """The range as ``search.toml`` has it."""
        return f"{self.kind}:{setting_text(self.low)}:{setting_text(self.high)}"

    def probes(self):
        """Values that the trainer must accept if it accepts all."""
        # One that is not whole too, where that is what will be drawn.
        between = [] if self.kind.startswith("integer") else [self.low + 0.381966 * (self.high - self.low)]
        return [self.low, *between, self.high]

    def distribution(self):
        """The range as Optuna knows it."""
        from optuna.distributions import FloatDistribution, IntDistribution

        cls = IntDistribution if self.kind.startswith("integer") else FloatDistribution
        return cls(self.low, self.high, log=self.kind.endswith("log"))


@dataclass(frozen=True)
class Choice:
    """One of several values; made by :func:`choice`."""

    values: tuple

    def text(self):
        """The values as ``search.toml`` has them."""
        return "choice:" + ":".join(setting_text(value) for value in self.values)

    def probes(self):
        """Values that the trainer must accept if it accepts all."""
        return list(self.values)

    def distribution(self):
        """The values as Optuna knows them."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.values)


def _bounds(name, low, high, whole=False):
    for bound in (low, high):
        if isinstance(bound, bool) or not isinstance(bound, int if whole else (int, float)):
            raise TypeError(f"{name} goes from one {'whole ' if whole else ''}number to another, and {bound!r} is none")
        if not math.isfinite(bound):
            raise ValueError(f"{name} goes from one number to another, not to {bound}")
    if not low < high:
        raise ValueError(f"{name}({low}, {high}) is empty: the second number must be larger than the first")


def log(low, high):
    """Numbers whose logarithm is drawn evenly: for learning rates, and whatever else differs by orders of magnitude.

    >>> from spectral_rl import search
    >>> search.log(1e-5, 1e-3)
    Range(kind='log', low=1e-05, high=0.001)
    """
    _bounds("log", low, high)
    if low <= 0:
        raise ValueError(f"log({low}, {high}) must begin above 0: there is no logarithm of {low}")
    return Range("log", float(low), float(high))


def uniform(low, high):
    """Numbers drawn evenly."""
    _bounds("uniform", low, high)
    return Range("uniform", float(low), float(high))


def integer(low, high, *, log=False):
    """Whole numbers, both ends included; with ``log``, their logarithm is drawn evenly."""
    _bounds("integer", low, high, whole=True)
    if log and low < 1:
        raise ValueError(f"integer({low}, {high}, log=True) must begin above 0: there is no logarithm of {low}")
    return Range("integer-log" if log else "integer", low, high)


def choice(*values):
    """One of these values: numbers, texts, ``True`` and ``False``, or lists such as ``[64, 64]``.

    >>> from spectral_rl import search
    >>> search.choice([64], [128, 128]).values
    (64, '128,128')
    """
    if len(values) == 1 and isinstance(values[0], (list, tuple)):
        raise TypeError(f"choice takes values one by one, as in choice(32, 64), not the list {values[0]!r}")
    known = []
    for value in values:
        value = setting_text(value) if isinstance(value, (list, tuple)) else value
        if not isinstance(value, (bool, int, float, str)):
            raise TypeError(f"choice takes numbers, texts, True, False and lists of them, not {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"choice takes finite numbers, not {value}")
        if isinstance(value, str) and (":" in value or not value.isprintable() or value != value.strip() or not value):
            raise ValueError(f"choice cannot have the text {value!r}: no colons, no spaces around it")
        value = float(value) if isinstance(value, float) else value
        # As files have it, so that a search that was read is the one that was written.
        known.append(_plain(setting_text(value)))
    if len(set(known)) != len(known):
        raise ValueError(f"choice has a value twice: {', '.join(map(setting_text, known))}")
    if len(known) < 2:
        raise ValueError("choice needs two values or more")
    return Choice(tuple(known))


def _plain(word):
    """A number or a truth value, if the text is one."""
    if word in ("true", "false"):
        return word == "true"
    if re.fullmatch(r"[+-]?\d+", word):
        return int(word)
    try:
        number = float(word)
    except ValueError:
        return word
    return number if math.isfinite(number) else word


def parse(text):
    """What a text of ``search.toml`` or of a flag means.

    >>> from spectral_rl.search._space import parse
    >>> parse("log:1e-5:1e-3"), parse("choice:32:64")
    (Range(kind='log', low=1e-05, high=0.001), Choice(values=(32, 64)))
    """
    kind, *words = [word.strip() for word in text.split(":")]
    values = [_plain(word) for word in words]
    if kind == "choice":
        return choice(*values)
    makers = {"log": log, "uniform": uniform, "integer": integer, "integer-log": lambda a, b: integer(a, b, log=True)}
    if kind not in makers or len(values) != 2:
        raise ValueError(f"'{text}' is no range: write {_FORMS}")
    return makers[kind](*values)
