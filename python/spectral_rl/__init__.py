"""Reinforcement learning where rewards grow: Spectral DQN and its rivals on Gymnasium tasks.

    import spectral_rl

    agent = spectral_rl.SpectralDQN("CartPole-v1", seed=1)
    agent.learn(50_000)
    action, _ = agent.predict(observation)

Everything is imported when it is first used, so that the `spectral` command, which lives in this package too, starts
without NumPy and Gymnasium.
"""

from importlib import import_module as _import_module

from spectral_rl import _registration

_HOMES = {
    "Agent": "agents",
    "AgentStopped": "agents",
    "CategoricalDQN": "agents",
    "CompressedDQN": "agents",
    "DQN": "agents",
    "PopArtDQN": "agents",
    "Population": "agents",
    "SpectralDQN": "agents",
    "decompose": "maths",
    "recompose": "maths",
    "compress": "maths",
    "decompress": "maths",
    "Policy": "policies",
    "load_policy": "policies",
    "Run": "data",
    "Callback": "callbacks",
}

__all__ = sorted(_HOMES)


def __getattr__(name):
    if name == "__version__":
        return _import_module("spectral_rl._native").__version__
    if name not in _HOMES:
        raise AttributeError(f"module 'spectral_rl' has no attribute {name!r}")
    value = getattr(_import_module(f"spectral_rl.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return [*__all__, "__version__"]


_registration.install()
