"""A zoo's metadata as a table: numpy columns, and other packages' data frames where they are installed."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._optional import optional


class Metadata(Mapping[str, np.ndarray]):
    """Column name -> ``(n,)`` int64, float64 or text, one value a row.

    Args:
        columns: all columns of a zoo.
        rows: ``(n,)`` the rows meant; None for all. They are taken when a column is asked for.
        owner: what has the columns, for messages.

    Raises:
        ZooError: a column that does not exist; the message lists those that do.
    """

    def __init__(
        self, columns: Mapping[str, np.ndarray], rows: np.ndarray | None = None, owner: str = "the zoo"
    ) -> None:
        self._columns, self._rows, self._owner = columns, rows, owner

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._columns:
            raise MissingColumnError(name, self._owner, self._columns)
        column = self._columns[name]
        return column if self._rows is None else column[self._rows]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __repr__(self) -> str:
        return f"Metadata({', '.join(self) or 'no columns'})"

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``; raises ZooError where pandas is not installed."""
        return _package("pandas").DataFrame({name: _plain(column) for name, column in self.items()})

    def to_polars(self) -> Any:
        """A ``polars.DataFrame``; raises ZooError where polars is not installed."""
        return _package("polars").DataFrame({name: _plain(column) for name, column in self.items()})

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table``; raises ZooError where pyarrow is not installed."""
        return _package("pyarrow").table({name: _plain(column) for name, column in self.items()})


class MissingColumnError(ZooError, KeyError):
    """A metadata column that does not exist: ``column``."""

    def __init__(self, name: str, owner: str, columns: Mapping[str, Any]) -> None:
        self.message = (
            f"There is no metadata column {name!r}: {owner} has {', '.join(sorted(columns)) or 'none'}."
        )
        super().__init__(self.message)
        self.column = name

    def __str__(self) -> str:  # a KeyError shows its argument in quotation marks
        return self.message


def _plain(column: np.ndarray) -> Any:
    return column.tolist() if column.dtype.kind == "U" else column


def _package(name: str) -> Any:
    return optional(name, "tables", "Without it, zoo.metadata[column] gives the columns as numpy arrays.")
