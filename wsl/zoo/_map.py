"""Reading rows of a zoo file, and which rows are meant."""

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from wsl.zoo._errors import ZooError

Rows = Sequence[int] | np.ndarray | Tensor | slice | None

# Larger files are read without a map: the pages of a map that were read count as memory of this process.
_MAPPED_BYTES = 160 << 20


class FileStamp(NamedTuple):
    """Tells whether a file is still the one that was opened."""

    device: int
    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, stat: os.stat_result) -> "FileStamp":
        return cls(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


class RowFile:
    """Reads rows of the matrices in a zoo file; keeps no descriptor open.

    Files of up to 160 MiB are mapped into memory. Of larger ones each run of consecutive rows is one read.

    Raises:
        ZooError: now or later, when the file is no longer the one of ``stamp``.
    """

    def __init__(self, path: Path, stamp: FileStamp) -> None:
        self._path, self._stamp, self._map = path, stamp, None
        if stamp.size <= _MAPPED_BYTES:
            with self._descriptor() as descriptor:
                self._map = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)

    def read(
        self, offset: int, shape: tuple[int, int], dtype: np.dtype[Any], rows: np.ndarray | slice
    ) -> np.ndarray:
        """A copy of some rows of the matrix of ``shape`` at ``offset``: ``(B, P)``, in its own type."""
        if self._map is None:
            numbers = np.arange(*rows.indices(shape[0])) if isinstance(rows, slice) else rows
            return self._read_runs(offset, shape[1], dtype, numbers)
        if self._map.size() != self._stamp.size:  # to touch a page beyond the end would kill the process
            raise self._changed(f"{self._stamp.size} bytes then, {self._map.size()} now")
        # A plain array view: np.memmap's own indexing costs more than the copy of a small batch.
        stored: np.ndarray = np.ndarray(shape, dtype, buffer=self._map, offset=offset)
        if isinstance(rows, slice):
            return np.array(stored[rows])
        taken = np.empty((len(rows), shape[1]), dtype=dtype)
        np.take(stored, rows, axis=0, out=taken, mode="clip")  # in range already; "clip" spares a buffer
        return taken

    def _read_runs(self, offset: int, width: int, dtype: np.dtype[Any], rows: np.ndarray) -> np.ndarray:
        taken = np.empty((len(rows), width), dtype=dtype)
        if not len(rows):
            return taken
        size = width * dtype.itemsize
        breaks = np.flatnonzero(rows[1:] - rows[:-1] != 1) + 1
        targets: Any = taken  # row by row, unless some follow one another
        if len(breaks) < len(rows) - 1:
            targets, rows = np.split(taken, breaks), rows[np.concatenate([[0], breaks])]
        places = (offset + rows * size).tolist()
        read = os.preadv
        with self._descriptor() as descriptor:
            counts = [read(descriptor, (part,), place) for part, place in zip(targets, places, strict=True)]
            if sum(counts) != taken.nbytes:  # the system may return less than asked for
                for part, place, count in zip(targets, places, counts, strict=True):
                    self._read_rest(descriptor, part, place, count)
        return taken

    def _read_rest(self, descriptor: int, target: np.ndarray, place: int, done: int) -> None:
        view = target.view(np.uint8).reshape(-1).data
        while done < len(view):
            count = os.preadv(descriptor, (view[done:],), place + done)
            if not count:
                raise self._changed("it ends early")
            done += count

    @contextmanager
    def _descriptor(self) -> Iterator[int]:
        """The file, open and the same as ever."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as err:
            raise self._changed(err) from err
        try:
            found = FileStamp.of(os.fstat(descriptor))
            if found != self._stamp:
                raise self._changed(f"{self._stamp.size} bytes then, {found.size} now")
            yield descriptor
        finally:
            os.close(descriptor)

    def _changed(self, reason: object) -> ZooError:
        return ZooError(f"{self._path} was moved, replaced or cut while in use ({reason}). Open it anew.")


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
    if selection.dtype == np.int64 and selection.view(np.uint64).max() < total:  # negative ones are huge so
        return selection
    outside = (selection < -total) | (selection >= total)
    if outside.any():
        raise ZooError(
            f"Row {selection[outside][0]} does not exist: the zoo has {total} rows, 0 to {total - 1}."
        )
    selection = selection.astype(np.int64)
    return np.where(selection < 0, selection + total, selection)
