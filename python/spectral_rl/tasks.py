"""Spectral's tasks as Gymnasium environments."""


def register():
    """Registers the tasks with Gymnasium."""
