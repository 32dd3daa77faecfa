"""The rows of a zoo as lines of text: JSON or CSV."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._map import Rows, select
from wsl.zoo._metadata import MissingColumnError
from wsl.zoo._store import Zoo

_BLOCK = 4096
_Source = np.ndarray | Callable[[np.ndarray], np.ndarray]


def row_lines(
    zoo: Zoo, rows: Rows = None, *, columns: Sequence[str] | None = None, form: str = "jsonl"
) -> Iterator[str]:
    """One line for each row, in their order; in CSV after a line of column names.

    Args:
        rows: row numbers, a boolean mask, a slice, or None for all.
        columns: names of metadata columns, or ``row``, ``architecture`` and ``hash``; by default the row, its
            architecture if there are several, and all metadata.
        form: ``jsonl`` or ``csv``. JSON knows no NaN and no infinities: they become null there.

    Raises:
        ZooError: a column that does not exist, or another form.
    """
    if form not in ("jsonl", "csv"):
        raise ZooError(f"Rows are printed as jsonl or csv, not as {form!r}.")
    of_rows: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "row": lambda numbers: numbers,
        "architecture": zoo.architecture_of,
        "hash": lambda numbers: np.array([each.tobytes().hex() for each in zoo.hashes[numbers]]),
    }
    metadata = zoo.metadata
    if columns is None:
        columns = [*(["row", "architecture"] if len(zoo.architectures) > 1 else ["row"]), *metadata]
    for name in columns:
        if name not in metadata and name not in of_rows:
            raise MissingColumnError(name, str(zoo.path), {**metadata, **of_rows})
    chosen = np.arange(len(zoo))[select(rows, len(zoo))]
    sources = [(name, metadata[name] if name in metadata else of_rows[name]) for name in columns]
    return _lines(chosen, sources, form)


def _lines(chosen: np.ndarray, columns: Sequence[tuple[str, _Source]], form: str) -> Iterator[str]:
    names = [name for name, _ in columns]
    if form == "csv":
        yield _csv(names)
    for start in range(0, len(chosen), _BLOCK):
        numbers = chosen[start : start + _BLOCK]
        block = [(source(numbers) if callable(source) else source[numbers]).tolist() for _, source in columns]
        for values in zip(*block, strict=True):
            yield _csv(values) if form == "csv" else _json(dict(zip(names, values, strict=True)))


def _csv(values: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)  # it quotes line breaks as its own end needs it
    return text.getvalue().removesuffix("\n")


def _json(row: dict[str, Any]) -> str:
    finite = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }
    return json.dumps(finite, ensure_ascii=False)
