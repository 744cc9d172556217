"""Searches for good settings: Optuna proposes trials, and each population trains several of them side by side.

    from spectral_rl import search

    study = search.create(
        "searches/pong",
        task="pong-mini",
        agent="spectral",
        space={"learning_rate": search.log(1e-5, 1e-3), "n_step": search.integer(1, 5)},
        seeds=2,
        frames=200_000,
        trials=40,
        population=8,
    )
    study.work()             # in as many processes, on as many nodes, as you like
    study.show()

Everything lies in one folder, which all workers share. The same from a shell: ``python -m spectral_rl.search``. It needs Optuna:
``pip install "spectral-rl[search]"``.
"""

from spectral_rl.search._search import Search, create, load
from spectral_rl.search._space import Choice, Range, choice, integer, log, uniform

__all__ = ["Choice", "Range", "Search", "choice", "create", "integer", "load", "log", "uniform"]
