"""The paper's formulae on arrays of any shape."""

import numpy as np

from spectral_rl import _native

__all__ = ["compress", "decompose", "decompress", "recompose"]


def _numbers(values, axes=32):
    array = np.asarray(values, dtype=np.float64)
    if array.ndim > axes:
        raise ValueError(f"an array of {array.ndim} axes is more than the {axes} that there may be")
    return array


def decompose(values, *, base=2.0, max_frequency=20, binary=False):
    """Splits numbers into exponentially wide buckets, along a new last axis of ``max_frequency + 1`` elements.

    >>> from spectral_rl import decompose
    >>> decompose(6.5, max_frequency=3)
    array([1.   , 1.   , 0.875, 0.   ])
    """
    return _native.decompose(_numbers(values, 31), base=base, max_frequency=max_frequency, binary=binary)


def recompose(elements, *, base=2.0):
    """The inverse of :func:`decompose`: the sum of ``base**i * elements[..., i]``.

    >>> from spectral_rl import recompose
    >>> float(recompose([1.0, 1.0, 0.875, 0.0]))
    6.5
    """
    return _native.recompose(_numbers(elements), base=base)


def compress(values, *, epsilon=0.01):
    """The square-root compression of DQN+TC: ``sign(x) * (sqrt(abs(x) + 1) - 1) + epsilon * x``.

    >>> from spectral_rl import compress
    >>> float(compress(-8.0))
    -2.08
    """
    return _native.compress(_numbers(values), epsilon=epsilon)


def decompress(values, *, epsilon=0.01):
    """The inverse of :func:`compress`.

    >>> from spectral_rl import compress, decompress
    >>> round(float(decompress(compress(1e6))), 6)
    1000000.0
    """
    return _native.decompress(_numbers(values), epsilon=epsilon)
