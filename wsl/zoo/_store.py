"""The zoo: a population of trained networks in one file, read through a memory map."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wsl.spec import WeightSpec
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._layout import STORED_DTYPES, Parameter, fingerprint
from wsl.zoo._reader import Content, read_content
from wsl.zoo._splits import Split

Rows = Sequence[int] | np.ndarray | Tensor | slice | None


class Zoo:
    """A zoo file, opened for reading. A row is one checkpoint.

    Holds no file handle: the tables are in memory, the weights behind a memory map. Pickles as its path and
    reopens where it is used first, so it works in forked and spawned loader workers. Never changes its file.

    Raises:
        ZooError: on opening, see :func:`Zoo.open`; on use after unpickling, when the file has changed since.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()
        self._content: Content | None = read_content(self._path)
        self._digest = self._content.digest
        self._map: np.ndarray | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Zoo":
        """Open a zoo, checking all of it but the weights (for those: :func:`wsl.zoo.verify_zoo`).

        Raises:
            ZooError: the file is missing, not a zoo, of a newer format, truncated, damaged, or inconsistent.
        """
        return cls(path)

    def __len__(self) -> int:
        return self._read().shape[0]

    def __repr__(self) -> str:
        return f"Zoo({str(self._path)!r}, rows={len(self)}, fingerprint={self.fingerprint!r})"

    @property
    def path(self) -> Path:
        return self._path

    @property
    def spec(self) -> WeightSpec:
        """The specification that all rows share."""
        return self._read().tables.spec

    @property
    def dtype(self) -> str:
        """How the weights are stored: ``float32`` or ``float16``."""
        return self._read().tables.dtype

    @property
    def metadata(self) -> Mapping[str, np.ndarray]:
        """Column name -> ``(rows,)`` int64, float64 or text."""
        return MappingProxyType(dict(self._read().tables.columns))

    @property
    def splits(self) -> Mapping[str, Split]:
        """Split name -> row numbers with their recipe and seed."""
        return MappingProxyType(dict(self._read().tables.splits))

    def split(self, name: str) -> np.ndarray:
        """``(n,)`` sorted int64 row numbers of one split; raises ZooError for an unknown name."""
        splits = self._read().tables.splits
        if name not in splits:
            raise ZooError(f"{self._path} has no split {name!r}; it has {', '.join(splits) or 'none'}.")
        return splits[name].indices

    @property
    def forward(self) -> ForwardDefinition:
        """How to rebuild and run the networks."""
        return self._read().tables.forward

    @property
    def provenance(self) -> dict[str, Any]:
        """Identity of the source data, recipe, package version, seed."""
        return dict(self._read().tables.provenance)

    @property
    def hashes(self) -> np.ndarray:
        """``(rows, 16)`` uint8, blake2b of each row as it was written."""
        return self._read().tables.hashes

    @property
    def fingerprint(self) -> str:
        """Identity of the content (not of the file or its provenance), 32 hex digits."""
        return fingerprint(self._read().tables)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Name, shape and place of each tensor in a row of :meth:`matrix`."""
        return self._read().parameters

    def matrix(self, rows: Rows = None, dtype: Any = np.float32) -> np.ndarray:
        """A copy of some rows as they lie in the file.

        Args:
            rows: row numbers in any order (negative ones count from the end), a boolean mask, a slice, or
                None for all.
            dtype: numpy type of the copy.

        Returns:
            ``(B, P)``; the columns are described by :attr:`parameters`.

        Raises:
            ZooError: a row that does not exist, or something that is not a row number.
        """
        stored = self._memory_map()
        selection = _selection(rows, len(stored))
        if isinstance(selection, slice):
            return np.array(stored[selection], dtype=dtype)
        taken = np.empty((len(selection), stored.shape[1]), dtype=stored.dtype)
        np.take(stored, selection, axis=0, out=taken, mode="clip")  # in range already; "clip" spares a buffer
        return taken.astype(dtype, copy=False)

    def weights(self, rows: Rows = None, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        """The weights of some rows.

        Args:
            rows: as in :meth:`matrix`.
            dtype: of the tensors; a float16 zoo is widened to it.

        Returns:
            Tensor name -> ``(B, *shape)``, views of one ``(B, P)`` copy.

        Raises:
            ZooError: as :meth:`matrix`.
        """
        flat = torch.from_numpy(self.matrix(rows)).to(dtype)
        parameters = self.parameters
        pieces = flat.split([parameter.size for parameter in parameters], dim=1)
        return {
            parameter.name: piece.view(len(flat), *parameter.shape)
            for parameter, piece in zip(parameters, pieces, strict=True)
        }

    def __getstate__(self) -> dict[str, Any]:
        return {"_path": self._path, "_digest": self._digest, "_content": None, "_map": None}

    def _read(self) -> Content:
        if self._content is None:
            content = read_content(self._path)
            if content.digest != self._digest:
                raise ZooError(
                    f"{self._path} was replaced by another zoo while in use "
                    f"(digest {content.digest}, was {self._digest}). Open it anew."
                )
            self._content = content
        return self._content

    def _memory_map(self) -> np.ndarray:
        if self._map is None:
            content = self._read()
            dtype = STORED_DTYPES[content.tables.dtype]
            # A plain array view: np.memmap's own indexing costs more than the copy of a small batch.
            try:
                mapped = np.memmap(self._path, dtype, mode="r", offset=content.offset, shape=content.shape)
            except (OSError, ValueError) as err:
                raise ZooError(
                    f"{self._path} was moved, replaced or cut while in use ({err}). Open it anew."
                ) from err
            self._map = np.asarray(mapped)
        return self._map


def _selection(rows: Rows, total: int) -> np.ndarray | slice:
    """Row numbers in ``0 .. total - 1``, or a slice."""
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
