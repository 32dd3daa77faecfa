"""A matrix in an npy file, read block by block and written row by row."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo.formats._networks import CHUNK_BYTES


class NpyMatrix:
    """float32 ``(rows, columns)``. Blocks are read: a memory map would count as memory in use."""

    def __init__(self, path: Path, columns: int) -> None:
        self.path, self.columns = path, columns
        try:
            with open(path, "rb") as file:
                version = np.lib.format.read_magic(file)
                header = np.lib.format.read_array_header_1_0 if version == (1, 0) else _header_2
                shape, fortran, dtype = header(file)
                self.offset = file.tell()
        except (OSError, ValueError, SyntaxError, TypeError, EOFError) as err:
            raise ZooError(f"{path} is no npy file of numbers ({type(err).__name__}: {err}).") from err
        if len(shape) != 2 or shape[1] != columns or dtype != np.dtype("<f4") or fortran:
            raise ZooError(
                f"{path} holds {dtype} {shape}, expected float32 (rows, {columns}), as its layout says."
            )
        self.rows = shape[0]
        size = path.stat().st_size - self.offset
        if self.rows < 1 or size != self.rows * columns * 4:
            raise ZooError(f"{path} has {size} bytes of values, expected {self.rows} rows of {columns * 4}.")

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        step = max(1, CHUNK_BYTES // (4 * self.columns))
        for start in range(0, self.rows, step):
            count = min(step, self.rows - start) * self.columns
            place = self.offset + start * self.columns * 4
            yield start, np.fromfile(self.path, "<f4", count, offset=place).reshape(-1, self.columns)


def _header_2(file: Any) -> Any:
    return np.lib.format.read_array_header_2_0(file)


def write_header(file: Any, shape: tuple[int, int]) -> None:
    """Begin an npy file of float32 values, which follow row by row."""
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
