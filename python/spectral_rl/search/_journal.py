"""The journal: every trial of a search, as Optuna keeps them on a file system that several nodes share.

All trials are in it from the beginning, waiting, so that their numbers are given once. A worker draws parameters with a copy of
the study in memory; the population's folder, which is made in one step, then decides what they are; and only then are they
written here. Each of these entries may be made twice without harm, so a worker may be killed between any two of them.
"""

import contextlib
import os
import warnings
from pathlib import Path

from spectral_rl.search._lock import JournalLock

FILE = "journal.log"
_STUDY = "search"
# Seconds after which the journal's lock is taken over from a worker that has died, or seems to have died, with it.
_GRACE = 30


def optuna():
    """The package, or an error that says how to get it."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        text = 'a search needs Optuna: pip install "spectral-rl[search]"'
        raise ModuleNotFoundError(text, name="optuna") from None
    return optuna


@contextlib.contextmanager
def _quiet():
    """Without Optuna's reports of what it is told."""
    module = optuna()
    before = module.logging.get_verbosity()
    module.logging.set_verbosity(module.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", module.exceptions.ExperimentalWarning)
            yield module
    finally:
        module.logging.set_verbosity(before)


def _storage(path):
    """The journal's storage."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    path = os.path.abspath(path)
    return JournalStorage(JournalFileBackend(path, JournalLock(path, _GRACE)))


class Journal:
    """The study of a search."""

    def __init__(self, folder):
        path = Path(folder, FILE)
        if not path.is_file():
            raise FileNotFoundError(f"{folder} has no {FILE}: it is not the whole folder of a search")
        with _quiet() as module:
            self._storage = _storage(path)
            self.study = module.load_study(study_name=_STUDY, storage=self._storage)
            self._study_id = self._storage.get_study_id_from_name(_STUDY)

    @staticmethod
    def create(folder, trials):
        """Makes the journal, with all of its trials waiting."""
        with _quiet() as module:
            storage = _storage(Path(folder, FILE))
            study = module.create_study(study_name=_STUDY, storage=storage, direction="maximize")
            waiting = module.trial.create_trial(state=module.trial.TrialState.WAITING)
            study.add_trials([waiting] * trials)

    def trials(self):
        """All trials, by number."""
        return self.study.get_trials(deepcopy=False)

    def ask(self, description, population, first, count, drawn):
        """Parameters for the trials ``first`` to ``first + count - 1``, as Optuna proposes them after all earlier ones.

        ``drawn`` are the parameters of these earlier ones. The random numbers depend on the search and the population alone,
        so that a worker that was killed here proposes the same when it is started again.
        """
        import numpy as np

        with _quiet() as module:
            seed = int(np.random.SeedSequence([description.sampler_seed, population]).generate_state(1)[0])
            if description.sampler == "random":
                sampler = module.samplers.RandomSampler(seed=seed)
            else:
                # Trials whose value is not known yet count as bad ones, so that those of a population differ.
                sampler = module.samplers.TPESampler(seed=seed, constant_liar=True)
            space = {key: wanted.distribution() for key, wanted in description.space.items()}
            state = module.trial.TrialState
            copy = module.create_study(direction="maximize", sampler=sampler)
            for known, params in zip(self.trials()[:first], drawn):
                finished = known.state.is_finished()
                copy.add_trial(
                    module.trial.create_trial(
                        state=known.state if finished else state.RUNNING,
                        value=known.value if known.state == state.COMPLETE else None,
                        params=params,
                        distributions=space,
                    )
                )
            return [dict(copy.ask(space).params) for _ in range(count)]

    def begin(self, number, params, space):
        """Enters that a trial has these parameters and is being trained."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        known = self.trials()[number]
        if known.state.is_finished():
            return
        with contextlib.suppress(UpdateFinishedTrialError):
            trial_id = self._trial_id(number)
            if known.state == TrialState.WAITING:
                self._storage.set_trial_state_values(trial_id, TrialState.RUNNING)
            for key, value in params.items():
                if key not in known.params:
                    distribution = space[key].distribution()
                    self._storage.set_trial_param(trial_id, key, distribution.to_internal_repr(value), distribution)

    def tell(self, number, value, notes):
        """Enters a trial's value, or with ``None`` that it failed; only the first to do so is heard."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        known = self.trials()[number]
        if known.state.is_finished():
            return
        with _quiet(), contextlib.suppress(UpdateFinishedTrialError):
            for key, note in notes.items():
                if known.user_attrs.get(key) != note:
                    self._storage.set_trial_user_attr(self._trial_id(number), key, note)
            state = TrialState.FAIL if value is None else TrialState.COMPLETE
            self.study.tell(number, value, state=state, skip_if_finished=True)

    def _trial_id(self, number):
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
