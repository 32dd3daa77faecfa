"""The networks of one architecture in a zoo: rows of one matrix."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from wsl.spec import WeightSpec
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._layout import STORED_DTYPES, Architecture, Parameter
from wsl.zoo._map import Rows, select
from wsl.zoo._metadata import Metadata

if TYPE_CHECKING:
    from wsl.zoo._store import Zoo


class ZooArchitecture:
    """One architecture of a zoo. Its rows count from 0; :attr:`rows` are their numbers in the whole zoo.

    Made by :attr:`Zoo.architectures`. Pickles as its zoo does.
    """

    def __init__(self, zoo: "Zoo", number: int) -> None:
        self._zoo, self._number = zoo, number

    def __len__(self) -> int:
        return self._zoo.tables.counts[self._number]

    @property
    def _described(self) -> Architecture:
        return self._zoo.tables.architectures[self._number]

    def __repr__(self) -> str:
        return f"ZooArchitecture({self.name!r}, rows={len(self)}, zoo={str(self._zoo.path)!r})"

    @property
    def name(self) -> str:
        return self._described.name

    @property
    def spec(self) -> WeightSpec:
        """The specification that its rows share."""
        return self._described.spec

    @property
    def forward(self) -> ForwardDefinition:
        """How to rebuild and run the networks."""
        return self._described.forward

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Name, shape and place of each tensor in a row of :meth:`matrix`."""
        return self._described.parameters

    @property
    def width(self) -> int:
        """P, the number of values in a row of :meth:`matrix`."""
        return self._zoo.stored[self._number].shape[1]

    @property
    def rows(self) -> np.ndarray:
        """``(n,)`` int64, ascending: the numbers of its rows in the whole zoo."""
        return self._zoo.tables.members[self._number]

    @property
    def metadata(self) -> Metadata:
        """Column name -> ``(n,)`` int64, float64 or text."""
        tables = self._zoo.tables
        rows = None if len(tables.architectures) == 1 else self.rows
        return Metadata(tables.columns, rows, str(self._zoo.path))

    @property
    def hashes(self) -> np.ndarray:
        """``(n, 16)`` uint8, blake2b of each row as it was written."""
        return self._zoo.tables.hashes[self.rows]

    def split(self, name: str) -> np.ndarray:
        """``(m,)`` sorted int64: its rows in one split, perhaps none; raises ZooError for an unknown name."""
        tables, rows = self._zoo.tables, self._zoo.split(name)
        return tables.places[rows[tables.numbers[rows] == self._number]]

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
        return self.stored(select(rows, len(self))).astype(dtype, copy=False)

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
        return self.tensors(self.stored(select(rows, len(self))), dtype)

    def stored(self, rows: np.ndarray | slice) -> np.ndarray:
        """``(B, P)`` in the stored type; the rows certainly exist. For the parts of this package."""
        content, file = self._zoo.opened()
        offset, shape = content.stored[self._number]
        return file.read(offset, shape, STORED_DTYPES[content.tables.dtype], rows)

    def tensors(self, stored: np.ndarray, dtype: torch.dtype) -> dict[str, Tensor]:
        """What :meth:`weights` returns of :meth:`stored` rows. For the parts of this package."""
        flat = torch.from_numpy(stored)
        return self._described.as_tensors(flat if flat.dtype is dtype else flat.to(dtype))


class Located(NamedTuple):
    """Some rows that share an architecture: ``wanted[positions]`` are ``architecture``'s ``rows``."""

    architecture: ZooArchitecture
    positions: np.ndarray
    rows: np.ndarray

    def weights(self, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        """Tensor name -> ``(n, *shape)``, as :meth:`ZooArchitecture.weights` of these rows."""
        return self.architecture.tensors(self.architecture.stored(self.rows), dtype)


def locate(
    architectures: Mapping[str, ZooArchitecture], numbers: np.ndarray, places: np.ndarray
) -> list[Located]:
    """Group rows by their architecture's ``numbers``, given their ``places`` in it; ``(B,)`` each."""
    if not len(numbers):
        return []
    order = np.argsort(numbers, kind="stable")
    sorted_numbers, sorted_places = numbers[order], places[order]
    starts = np.flatnonzero(sorted_numbers[1:] != sorted_numbers[:-1]) + 1
    bounds = [0, *starts.tolist(), len(order)]
    views, present = list(architectures.values()), sorted_numbers[bounds[:-1]].tolist()
    return [
        Located(views[number], order[start:stop], sorted_places[start:stop])
        for number, start, stop in zip(present, bounds, bounds[1:], strict=False)
    ]
