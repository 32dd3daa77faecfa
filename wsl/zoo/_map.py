"""The memory map of a zoo file, and which rows are meant."""

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from wsl.zoo._errors import ZooError

Rows = Sequence[int] | np.ndarray | Tensor | slice | None

# Pages that were read stay part of this process until they are given back, although they are only the
# system's cache. A map larger than this gives them back each time that about as much was read.
_RESIDENT_BYTES = 128 << 20
_FAULT_BYTES = 1 << 16  # the system maps this much around a row that is touched


class FileStamp(NamedTuple):
    """Tells whether a file is still the one that was opened."""

    device: int
    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, stat: os.stat_result) -> "FileStamp":
        return cls(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


class FileMap:
    """A file mapped for reading; keeps no descriptor open.

    Raises:
        ZooError: the file is no longer the one of ``stamp``.
    """

    def __init__(self, path: Path, stamp: FileStamp) -> None:
        try:
            with open(path, "rb") as file:
                found = FileStamp.of(os.fstat(file.fileno()))
                if found != stamp:
                    raise ValueError(f"{stamp.size} bytes then, {found.size} now")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as err:
            raise ZooError(f"{path} was moved, replaced or cut while in use ({err}). Open it anew.") from err
        self._touched = 0
        self._large = stamp.size > _RESIDENT_BYTES and hasattr(mmap, "MADV_DONTNEED")

    def array(self, offset: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> np.ndarray:
        """A plain array view: np.memmap's own indexing costs more than the copy of a small batch."""
        return np.ndarray(shape, dtype, buffer=self._map, offset=offset)

    def touch(self, rows: int, size: int) -> None:
        """Count what was read, ``rows`` pieces of ``size`` bytes together."""
        if not self._large:
            return
        self._touched += size + rows * _FAULT_BYTES
        if self._touched > _RESIDENT_BYTES:
            self._map.madvise(mmap.MADV_DONTNEED)
            self._touched = 0


def select(rows: Rows, total: int) -> np.ndarray | slice:
    """Row numbers in ``0 .. total - 1``, or a slice; raises ZooError for rows that do not exist."""
    if rows is None:
        return slice(None)
    if isinstance(rows, slice):
        return rows
    selection = np.asarray(rows)
    if selection.ndim == 1 and selection.dtype == np.bool_:
        if len(selection) != total:
            raise ZooError(f"The row mask has {len(selection)} entries, but the zoo has {total} rows.")
        return np.flatnonzero(selection)
    if selection.ndim == 1 and selection.size == 0:
        return selection.astype(np.int64)
    if selection.ndim != 1 or selection.dtype.kind not in "iu":
        raise ZooError(
            f"Rows are given as {selection.dtype} of shape {selection.shape}; expected row numbers, "
            "a slice, or None for all. For a single row pass [row]."
        )
    outside = (selection < -total) | (selection >= total)
    if outside.any():
        raise ZooError(
            f"Row {selection[outside][0]} does not exist: the zoo has {total} rows, 0 to {total - 1}."
        )
    selection = selection.astype(np.int64)
    return np.where(selection < 0, selection + total, selection)
