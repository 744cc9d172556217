"""Registers the tasks with Gymnasium, whichever of the two packages is imported first.

Gymnasium 1.0 and later knows no plugins: an id is known once somebody has registered it. Importing ``spectral_rl`` must
not import Gymnasium, so where Gymnasium is not there yet, registration waits for it.
"""

import sys


def _register():
    try:
        from spectral_rl.tasks import register

        register()
    except Exception as error:  # Gymnasium itself must stay importable, whatever is wrong with this package.
        import warnings

        warnings.warn(f"Spectral's tasks are not registered with Gymnasium: {error!r}", stacklevel=2)


class _WaitsForGymnasium:
    """A finder that finds nothing itself: it lets the others find Gymnasium and registers once that is imported."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "gymnasium":
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(_WaitsForGymnasium)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _register()

            spec.loader.exec_module = exec_module
        return spec


def install():
    """Registers now or when Gymnasium is imported."""
    if hasattr(sys.modules.get("gymnasium"), "registry"):
        _register()
    elif _WaitsForGymnasium not in sys.meta_path:
        sys.meta_path.insert(0, _WaitsForGymnasium)
