"""The native half of the package: one section for each Rust file in crates/spectral-python/src."""

import os
from typing import Any, final

import numpy as np
import numpy.typing as npt

__version__: str

# command.rs

def run_command(arguments: list[str]) -> int: ...

# maths.rs

def decompose(
    values: npt.NDArray[np.float64], *, base: float = 2.0, max_frequency: int = 20, binary: bool = False
) -> npt.NDArray[np.float64]: ...
def recompose(elements: npt.NDArray[np.float64], *, base: float = 2.0) -> npt.NDArray[np.float64]: ...
def compress(values: npt.NDArray[np.float64], *, epsilon: float = 0.01) -> npt.NDArray[np.float64]: ...
def decompress(values: npt.NDArray[np.float64], *, epsilon: float = 0.01) -> npt.NDArray[np.float64]: ...

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
        keywords: list[str] = [],
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
    ) -> tuple[npt.NDArray[Any], dict[str, Any]]: ...
    def step(
        self, actions: npt.NDArray[np.int64]
    ) -> tuple[
        npt.NDArray[Any], npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]
    ]: ...
    def reset_one(self, seed: int | None = None) -> tuple[npt.NDArray[Any], dict[str, Any]]: ...
    def step_one(self, action: int) -> tuple[npt.NDArray[Any], float, bool, bool, dict[str, Any]]: ...
    def picture(self, number: int = 0) -> npt.NDArray[np.uint8] | None: ...
