"""What the trainer says of agents before anything is trained."""

import itertools
import re
import tempfile
from pathlib import Path

from spectral_rl import _native, _spaces
from spectral_rl._session import _ELSEWHERE, setting_text
from spectral_rl.search._description import toml_key, toml_value

_MOST_CORNERS = 64


class Plans:
    """Asks the trainer, for one search, whether it would take agents, and what their settings would be."""

    def __init__(self, description):
        self._description = description
        for key in description.settings:
            if key in _ELSEWHERE and key not in ("frames", "seeds", "task"):
                raise TypeError(f"there is no setting '{key}' here: what you look for is {_ELSEWHERE[key]}")
        env_kwargs, stack = description.env_kwargs, description.stack
        self._task, _, _, more = _spaces.make_task(description.task, env_kwargs=env_kwargs, stack=stack)
        self._settings = {**description.settings, **more}

    def plan(self, agents, **settings):
        """The plan of a run with these agents, or the trainer's refusal. Nothing is written.

        It is for the CPU unless another device is given: a search may be made where there is no GPU.
        """
        wanted = {**self._settings, "device": "cpu", **settings}
        pairs = [(key, setting_text(value)) for key, value in wanted.items()]
        with tempfile.TemporaryDirectory(prefix="spectral-") as folder:
            return _native.Training(self._task, list(map(str, agents)), [1], pairs, str(Path(folder, "run")))

    def base_agent(self):
        """The searched agent with everything that is set for it: its codec, and its settings as texts."""
        plan = self.plan([self._description.agent])
        return plan.policy(0).codec, dict(plan.settings(0))

    def check_space(self, codec, base):
        """Refuses a space with a setting that agents do not have or a value that it cannot have.

        Returns why agents of different values cannot be trained together on a GPU, or ``None`` if they can.
        """
        reason = None
        with tempfile.TemporaryDirectory(prefix="spectral-") as folder:

            def probe(name, changes):
                path = Path(folder, f"{name}.toml")
                path.write_text(agent_toml(codec, {**base, **changes}), encoding="utf-8")
                return path

            for key, wanted in self._description.space.items():
                if key == "codec":
                    raise ValueError("space: an agent is what its codec makes it: search for one agent at a time")
                for value in wanted.probes():
                    try:
                        self.plan([probe("probe", {key: value})])
                    except ValueError as error:
                        # It may go together with other values of what else is searched.
                        if not any(self._takes(probe("probe", {**other, key: value})) for other in self._corners(key)):
                            raise ValueError(f"space: {key} = {setting_text(value)}: {_without(error, folder)}") from None
                ends = [probe("first", {key: wanted.probes()[0]}), probe("last", {key: wanted.probes()[-1]})]
                try:
                    # A GPU's pipeline without a GPU, so that this can be told on any machine.
                    self.plan(ends, device="cpu-lockstep")
                except ValueError as error:
                    if "must share" in str(error):
                        reason = reason or f"agents that a GPU trains together must share {key}"
        return reason

    def _takes(self, agent):
        try:
            self.plan([agent])
        except ValueError:
            return False
        return True

    def _corners(self, key):
        """Combinations of the ends of all other ranges; not all of them, if there are many."""
        others = {other: wanted.probes() for other, wanted in self._description.space.items() if other != key}
        if others:
            for values in itertools.islice(itertools.product(*others.values()), _MOST_CORNERS):
                yield dict(zip(others, values))

    def trains_on_gpu(self):
        """Whether this machine would train the search on a GPU."""
        device = setting_text(self._description.settings.get("device", "auto"))
        if device != "auto":
            return device != "cpu"
        notes = self.plan([self._description.agent], device="auto").notes()
        return any(note.startswith("trains on cuda") for note in notes)


def _without(error, folder):
    """An error's text, without the names that only a probe has."""
    text = re.sub(re.escape(folder) + r"/\w+\.toml: ?", "", str(error))
    return re.sub(r"^agent probe ?(\(codec (\S+)\))?:? ?", lambda m: f"codec {m[2]}: " if m[2] else "", text)


def agent_toml(codec, settings):
    """The file of an agent: its codec and its settings, which are texts or plain values."""
    lines = [f"codec = {toml_value(codec)}"]
    for key, value in settings.items():
        text = setting_text(value)
        bare = text in ("true", "false") or re.fullmatch(r"[+-]?(0|[1-9]\d{0,17})(\.\d+)?(e[+-]?\d+)?", text)
        lines.append(f"{toml_key(key)} = {text if bare else toml_value(text)}")
    return "\n".join(lines) + "\n"
