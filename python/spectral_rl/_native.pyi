"""The native half of the package. One section per file of crates/spectral-python/src."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__version__: str

# command.rs

def run_command(arguments: Sequence[str]) -> int: ...

# maths.rs

def decompose(
    values: NDArray[np.float64], *, base: float = 2.0, max_frequency: int = 20, binary: bool = False
) -> NDArray[np.float64]: ...
def recompose(elements: NDArray[np.float64], *, base: float = 2.0) -> NDArray[np.float64]: ...
def compress(values: NDArray[np.float64], *, epsilon: float = 0.01) -> NDArray[np.float64]: ...
def decompress(values: NDArray[np.float64], *, epsilon: float = 0.01) -> NDArray[np.float64]: ...

# data.rs

def read_run(path: str | os.PathLike[str]) -> dict[str, Any]: ...
def read_table(
    path: str | os.PathLike[str], running: bool
) -> dict[str, NDArray[np.float64] | NDArray[np.int64]]: ...
def write_report(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    title: str = "Training report",
    baseline: str = "spectral",
    at_frames: int | None = None,
) -> os.PathLike[str]: ...

# policy.rs

class Policy:
    """A frozen agent. Observations are stacked: uint8 planes or float vectors, one or a batch of them."""

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Policy:
        """Loads a model file, an agent's folder, or a run directory that has one model."""

    def q_values(self, observations: ArrayLike) -> NDArray[np.float32]:
        """Action-values in true reward units: (batch, actions), or (actions,) for one observation."""

    def outputs(self, observations: ArrayLike) -> NDArray[np.float32]:
        """The network's outputs before decoding: (batch, actions, K), or (actions, K)."""

    def act(self, observations: ArrayLike, mask: ArrayLike | None = None) -> Any:
        """Greedy actions, int64 (batch,), or an int for one observation. ``mask`` says which are allowed."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a model file, atomically."""

    def export_onnx(self, path: str | os.PathLike[str]) -> None:
        """Writes an ONNX file, atomically: input ``observation``, outputs ``q_values`` and ``outputs``."""

    @property
    def agent(self) -> str: ...
    @property
    def codec(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def frames(self) -> int: ...
    @property
    def observation_shape(self) -> tuple[int, ...]: ...
    @property
    def observation_kind(self) -> str: ...
    @property
    def stack(self) -> int: ...
    @property
    def actions(self) -> list[str]: ...
    @property
    def frequencies(self) -> int | None: ...
    @property
    def weights(self) -> NDArray[np.float64] | None: ...
