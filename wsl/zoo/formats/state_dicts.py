"""Folders of PyTorch state dicts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo.formats._export import write_torch_file
from wsl.zoo.formats._networks import tensors_of
from wsl.zoo.formats._state_folders import StateFolderFormat
from wsl.zoo.formats._torch_file import read_torch_file


class StateDictsFormat(StateFolderFormat):
    """``*.pt``, ``*.pth`` or ``*.ckpt``, one dictionary of tensors each, and a CSV: see the base class."""

    name = "state_dicts"
    summary = "a folder of PyTorch state dicts (*.pt, *.pth, *.ckpt) and a CSV of metadata; holds any zoo"
    suffixes = (".pt", ".pth", ".ckpt")

    def load(self, path: Path) -> dict[str, np.ndarray]:
        return tensors_of(read_torch_file(path), str(path))

    def save(self, path: Path, tensors: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> None:
        write_torch_file(path, tensors)
