"""What is called while agents train.

A callback is an object of a class derived from :class:`Callback`, or a function, which is called at every step:

    class Stop(Callback):
        def on_episode(self, info):
            return info["score"] < 100          # False stops the training

    agent.learn(1_000_000, callback=[Stop(), TensorBoardLogger("logs")])

Infos and rows are plain dicts. All have ``agent`` (the name), ``seed`` and ``frame``; episodes have ``score``, ``return`` and
``length`` too, and rows have the columns of ``metrics.csv``.
"""

__all__ = ["Callback", "CallbackList", "TensorBoardLogger", "WandbLogger", "as_callback"]


class Callback:
    """Does nothing; derive from it and define what you need.

    >>> from spectral_rl.callbacks import Callback
    >>> class Print(Callback):
    ...     def on_episode(self, info):
    ...         print(info["score"])
    >>> Print().on_episode({"agent": "spectral", "seed": 1, "frame": 90, "score": 3.0, "return": 3.0, "length": 9})
    3.0
    """

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        for name in vars(cls):
            if name.startswith("on_") and not hasattr(Callback, name):
                there = ", ".join(hook for hook in vars(Callback) if hook.startswith("on_"))
                raise TypeError(f"{cls.__name__}.{name} would never be called; there are {there}")

    def on_training_start(self, agent):
        """Training begins, or goes on: ``agent`` is the object that trains."""

    def on_step(self, info):
        """A step was played. ``False`` stops the training."""

    def on_episode(self, info):
        """An episode ended. ``False`` stops the training."""

    def on_log(self, row):
        """A logging interval ended: what ``metrics.csv`` gets. Values that do not exist yet are ``None`` or NaN."""

    def on_checkpoint(self, info):
        """A checkpoint was written."""

    def on_training_end(self):
        """Training is over, whether it got to its end or not."""


class _Function(Callback):
    """A function as a callback."""

    def __init__(self, function):
        self.function = function

    def on_step(self, info):
        return self.function(info)


class CallbackList(Callback):
    """Several callbacks as one, called in order. One that says stop does not keep the others from being called.

    >>> from spectral_rl.callbacks import CallbackList
    >>> both = CallbackList([lambda info: info["frame"] < 100, lambda info: None])
    >>> both.on_step({"frame": 7}) is False, both.on_step({"frame": 100}) is False
    (False, True)
    >>> both.wants("on_step"), both.wants("on_episode")
    (True, False)
    """

    def __init__(self, callbacks=()):
        self.callbacks = [as_callback(callback) for callback in callbacks]

    def wants(self, hook):
        """Whether a callback defines this hook, so that nobody makes infos that nobody reads."""
        return any(_wants(callback, hook) for callback in self.callbacks)

    def on_training_start(self, agent):
        for callback in self.callbacks:
            callback.on_training_start(agent)

    def on_step(self, info):
        return self._ask("on_step", info)

    def on_episode(self, info):
        return self._ask("on_episode", info)

    def on_log(self, row):
        for callback in self.callbacks:
            callback.on_log(row)

    def on_checkpoint(self, info):
        for callback in self.callbacks:
            callback.on_checkpoint(info)

    def on_training_end(self):
        """Lets every callback finish, and then raises the first exception that there was."""
        first = None
        for callback in self.callbacks:
            try:
                callback.on_training_end()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first

    def _ask(self, hook, info):
        answers = [getattr(callback, hook)(info) for callback in self.callbacks]
        return not any(answer is False for answer in answers)


def _wants(callback, hook):
    if isinstance(callback, CallbackList):
        return callback.wants(hook)
    return getattr(type(callback), hook, None) is not getattr(Callback, hook) or hook in vars(callback)


def as_callback(callback):
    """A :class:`Callback` from what users give: a callback, a function (called at every step), a list, or ``None``.

    >>> from spectral_rl.callbacks import as_callback
    >>> as_callback(3)
    Traceback (most recent call last):
    ...
    TypeError: a callback is a Callback, a function of one info or a list of these, not int
    """
    if callback is None:
        return CallbackList()
    if isinstance(callback, Callback):
        return callback
    if isinstance(callback, (list, tuple)):
        return CallbackList(callback)
    if callable(callback) and not isinstance(callback, type):
        return _Function(callback)
    kind = callback.__name__ + " itself: make an object of it" if isinstance(callback, type) else type(callback).__name__
    raise TypeError(f"a callback is a Callback, a function of one info or a list of these, not {kind}")


def __getattr__(name):
    if name in ("TensorBoardLogger", "WandbLogger"):
        from spectral_rl import loggers

        return getattr(loggers, name)
    raise AttributeError(f"module 'spectral_rl.callbacks' has no attribute {name!r}")
