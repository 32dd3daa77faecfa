"""Metadata from CSV and JSON: the kind of each column is the narrowest that holds all of its values."""

import csv
import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wsl.zoo._columns import check_name
from wsl.zoo._errors import ZooError
from wsl.zoo.formats._files import read_bytes, shown

_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}")
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,5})?|nan|[+-]?inf", re.ASCII)
_TYPES: dict[str, type] = {"int": int, "float": float, "text": str}
_LONGEST_LINE = 16_384


def csv_rows(path: Path, most: int) -> Iterator[list[str]]:
    """The records of a CSV file (``.gz``: compressed), the header first.

    Args:
        most: records that there may be, so that a small compressed file cannot go on for ever.

    Raises:
        ZooError: too many records, one that is too long, or text that is no CSV.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as stream:
            reader = csv.reader(_lines(stream, path), strict=True)
            for number, record in enumerate(reader):
                if number >= most:
                    raise ZooError(f"{path} has more than {most} records.")
                yield record
    except (OSError, EOFError, zlib.error, csv.Error, UnicodeDecodeError) as err:
        raise ZooError(f"{path} cannot be read as CSV ({type(err).__name__}: {err}).") from err


def _lines(stream: Any, path: Path) -> Iterator[str]:
    number = 0
    while line := stream.readline(_LONGEST_LINE + 1):
        number += 1
        if len(line) > _LONGEST_LINE:
            raise ZooError(f"{path} has a line of more than {_LONGEST_LINE} bytes, line {number}.")
        yield line.decode("utf-8-sig" if number == 1 else "utf-8")


def typed_number(text: str, kind: type, what: str) -> Any:
    """A cell as ``int`` (``16.0`` is 16), ``float`` (empty is NaN) or ``str``; raises ZooError."""
    try:
        return parse_cell(text, kind)
    except ValueError as err:
        expected = "an integer" if kind is int else "a number"
        raise ZooError(f"{what} is {shown(text)}, expected {expected}.") from err


def parse_cell(text: str, kind: type) -> Any:
    """:func:`typed_number` for millions of cells; raises ValueError without a message."""
    if kind is str:
        return text
    if kind is float and (not text or _FLOAT.fullmatch(text.lower())):
        return float(text or "nan")
    whole = text.removesuffix(".0") if kind is int else ""
    if _INTEGER.fullmatch(whole) and -(2**63) <= int(whole) < 2**63:
        return int(whole)
    raise ValueError


def read_table(path: Path) -> tuple[dict[str, type], list[dict[str, Any]]]:
    """A CSV with a header: columns and their types, and a value for each column of each record.

    A header ``name:int``, ``name:float`` or ``name:text`` says the type; otherwise it is the narrowest that
    holds all values. Empty cells are NaN in columns of numbers.

    Raises:
        ZooError: no header, a name twice, records of another length, or a cell that is not of its type.
    """
    text = io.BytesIO(read_bytes(path))
    try:
        records = list(csv.reader(_lines(text, path), strict=True))
    except (csv.Error, UnicodeDecodeError) as err:
        raise ZooError(f"{path} cannot be read as CSV ({err}).") from err
    if not records or not records[0]:
        raise ZooError(f"{path} is empty, expected a header and a line for each network.")
    header, records = records[0], [record for record in records[1:] if record]
    for number, record in enumerate(records, 1):
        if len(record) != len(header):
            raise ZooError(f"{path}: row {number} has {len(record)} cells, and the header {len(header)}.")
    kinds: dict[str, type] = {}
    for place, title in enumerate(header):
        name, _, said = title.rpartition(":")
        if said not in _TYPES or not name:
            name, said = title, ""
        check_name("metadata column", name)
        if name in kinds:
            raise ZooError(f"{path} has two columns named {name}.")
        kinds[name] = _TYPES[said] if said else _cell_kind(record[place] for record in records)
    return kinds, [
        {
            name: typed_number(cell, kind, f"{path}: {name} of row {number}")
            for cell, (name, kind) in zip(record, kinds.items(), strict=True)
        }
        for number, record in enumerate(records, 1)
    ]


def _cell_kind(cells: Iterable[str]) -> type:
    kind: type = int
    empty = True
    for cell in cells:
        empty = empty and not cell
        if kind is int and not _INTEGER.fullmatch(cell):
            kind = float
        if kind is float and cell and not _FLOAT.fullmatch(cell.lower()):
            return str
    return str if empty else kind


def write_table(
    path: Path, kinds: Mapping[str, type], records: Iterable[Sequence[Any]], *, typed: bool = True
) -> None:
    """A CSV that :func:`read_table` reads back exactly."""
    names = {kind: name for name, kind in _TYPES.items()}
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([f"{name}:{names[kind]}" if typed else name for name, kind in kinds.items()])
        for record in records:
            writer.writerow([repr(value) if isinstance(value, float) else value for value in record])


class JsonColumns:
    """Finds the columns and types of JSON records, in one pass; then converts their values in another."""

    def __init__(self) -> None:
        self.kinds: dict[str, type] = {}

    def see(self, record: Mapping[str, Any], where: str) -> None:
        """Take the keys of a record in; raises ZooError for a key that cannot name a column."""
        for key, value in record.items():
            name = column_name(key)
            if name not in self.kinds:
                check_name(f"metadata column of {where}", name)
            self.kinds[name] = _wider(self.kinds.get(name, int), value)

    def value(self, record: Mapping[str, Any], name: str, where: str) -> Any:
        """The value of a column in a record; NaN or empty where it has none."""
        kind, value = self.kinds[name], record.get(name)
        if kind is str:
            return value if isinstance(value, str) else "" if value is None else json.dumps(value)
        if value is None:
            return math.nan
        try:
            number = kind(value)
        except (OverflowError, ValueError) as err:
            raise ZooError(f"{where}: {name} is {shown(value)}, which no column holds.") from err
        if kind is int and not -(2**63) <= number < 2**63:
            raise ZooError(f"{where}: {name} is {shown(value)}, which no column holds.")
        return number

    def complete(self, names: Iterable[str]) -> None:
        """Integers become floats for columns that some records lack."""
        for name in names:
            if self.kinds[name] is int:
                self.kinds[name] = float


def column_name(key: str) -> str:
    """A JSON key as a column: a slash, which no column has, becomes a dot."""
    return key.replace("/", ".")


def _wider(kind: type, value: Any) -> type:
    if kind is str or not isinstance(value, bool | int | float | None):
        return str
    return kind if isinstance(value, bool | int) else float
