"""The networks of one architecture in a zoo: rows of one matrix."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from wsl.spec import WeightSpec
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._layout import STORED_DTYPES, Parameter
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

    def __repr__(self) -> str:
        return f"ZooArchitecture({self.name!r}, rows={len(self)}, zoo={str(self._zoo.path)!r})"

    @property
    def name(self) -> str:
        return self._zoo.tables.architectures[self._number].name

    @property
    def spec(self) -> WeightSpec:
        """The specification that its rows share."""
        return self._zoo.tables.architectures[self._number].spec

    @property
    def forward(self) -> ForwardDefinition:
        """How to rebuild and run the networks."""
        return self._zoo.tables.architectures[self._number].forward

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Name, shape and place of each tensor in a row of :meth:`matrix`."""
        return self._zoo.tables.architectures[self._number].parameters

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
        offset, shape = self._zoo.stored[self._number]
        stored = STORED_DTYPES[self._zoo.dtype]
        taken = self._zoo.file.read(offset, shape, stored, select(rows, len(self)))
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
        return as_tensors(self.parameters, flat)


class Located(NamedTuple):
    """Some rows that share an architecture: ``wanted[positions]`` are ``architecture``'s ``rows``."""

    architecture: ZooArchitecture
    positions: np.ndarray
    rows: np.ndarray


def as_tensors(parameters: tuple[Parameter, ...], flat: Tensor) -> dict[str, Tensor]:
    """``(B, P)`` -> tensor name -> ``(B, *shape)`` views of it."""
    pieces = flat.split([parameter.size for parameter in parameters], dim=1)
    return {
        parameter.name: piece.view(len(flat), *parameter.shape)
        for parameter, piece in zip(parameters, pieces, strict=True)
    }


def locate(
    architectures: Mapping[str, ZooArchitecture], numbers: np.ndarray, places: np.ndarray
) -> list[Located]:
    """Group rows by their architecture's ``numbers``, given their ``places`` in it; ``(B,)`` each."""
    views, found = list(architectures.values()), []
    for number in np.unique(numbers):
        positions = np.flatnonzero(numbers == number)
        found.append(Located(views[number], positions, places[positions]))
    return found
