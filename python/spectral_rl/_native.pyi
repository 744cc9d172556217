"""The native half of the package. One section per file of crates/spectral-python/src."""

import os
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "GymTask",
    "Policy",
    "TaskBatch",
    "Training",
    "__version__",
    "add_rom_folder",
    "compile_cuda",
    "compress",
    "decompose",
    "decompress",
    "list_tasks",
    "read_run",
    "read_table",
    "recompose",
    "run_command",
    "write_report",
]

__version__: str

# command.rs

def run_command(arguments: Sequence[str]) -> int: ...

# neighbours.rs

def compile_cuda(source: str, architecture: str) -> bytes: ...

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
    title: str = ...,
    baseline: str = ...,
    at_frames: int | None = None,
) -> os.PathLike[str]: ...

# policy.rs

@final
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

# gym/

@final
class GymTask:
    """A Gymnasium task that agents can be trained on."""

    def __new__(
        cls,
        *,
        name: str,
        observation: str,
        shape: list[int],
        start: int,
        stack: int,
        actions: list[str],
        action_start: int,
        masks_actions: bool,
        reproducible: bool,
        make: Any | None = None,
        instances: list[Any] = ...,
        vector: Any | None = None,
        autoreset: str = "disabled",
    ) -> GymTask: ...
    @property
    def name(self) -> str: ...
    @property
    def reproducible(self) -> bool: ...
    def take(self) -> Any: ...

# training.rs

@final
class Training:
    """A run: agents and seeds on one task, in one folder."""

    def __new__(
        cls,
        task: GymTask | str,
        agents: list[str],
        seeds: list[int],
        settings: list[tuple[str, str]],
        run_dir: str | os.PathLike[str],
        disposable: bool = False,
    ) -> Training: ...
    @staticmethod
    def found(task: GymTask | str, run_dir: str | os.PathLike[str]) -> Training: ...
    def learn(
        self,
        frames: int,
        callback: Any | None = None,
        wants_steps: bool = False,
        wants_episodes: bool = False,
        progress: Any | None = None,
    ) -> bool: ...
    def cancel(self) -> None: ...
    def policy(self, agent: int) -> Policy: ...
    def agents(self) -> list[tuple[str, int, str, int, float | None, str | None, int]]: ...
    def open(self) -> bool: ...
    def task_settings(self) -> list[tuple[str, str]]: ...
    def notes(self) -> list[str]: ...
    def settings(self, agent: int) -> list[tuple[str, str]]: ...
    def close(self) -> None: ...

# tasks/

def list_tasks() -> list[tuple[str, str]]: ...
def add_rom_folder(folder: str | os.PathLike[str]) -> None: ...
@final
class TaskBatch:
    def __new__(
        cls,
        task: str,
        settings: dict[str, Any],
        *,
        num_envs: int | None = None,
        raw: bool = False,
        autoreset_mode: str = "Disabled",
        copy: bool = True,
        threads: int | None = None,
        max_episode_steps: int | None = None,
        keywords: list[str] = ...,
    ) -> TaskBatch: ...
    @property
    def observation_shape(self) -> list[int]: ...
    @property
    def observes_bytes(self) -> bool: ...
    @property
    def actions(self) -> list[str]: ...
    @property
    def frames_per_step(self) -> int: ...
    @property
    def threads(self) -> int: ...
    def reset(
        self, seeds: list[int | None], mask: list[bool] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]: ...
    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[
        NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
    ]: ...
    def reset_one(self, seed: int | None = None) -> tuple[NDArray[Any], dict[str, Any]]: ...
    def step_one(self, action: int) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]: ...
    def picture(self, number: int = 0) -> NDArray[np.uint8] | None: ...
