"""Metadata columns: three kinds of values (int64, float64, text), and how they are stored."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from wsl.zoo._errors import ZooError

_LONGEST_NAME = 255


def check_name(what: str, name: Any) -> None:
    """Raise ZooError for a name that cannot be one inside the file: empty, dots only, or with ``/``."""
    if not isinstance(name, str) or not name.strip(".") or "/" in name or not name.isprintable():
        raise ZooError(f"{name!r} cannot name {_an(what)}. Use a non-empty printable name without '/'.")
    if len(name) > _LONGEST_NAME:
        raise ZooError(
            f"{name[:40]}… cannot name {_an(what)}: it has {len(name)} of {_LONGEST_NAME} characters."
        )


def _an(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"


def as_array(values: Any) -> np.ndarray:
    """A tensor, array or sequence as an array; bfloat16, which numpy lacks, is widened to float32."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        values = values.float() if values.dtype is torch.bfloat16 else values
    return np.asarray(values)


def as_column(name: str, values: Any) -> np.ndarray:
    """Bring one column to its stored kind.

    Args:
        name: the column's name; it becomes a name inside the file, so it must be non-empty, without ``/``.
        values: ``(n,)`` booleans, integers, floats or strings (array, tensor or sequence).

    Returns:
        ``(n,)`` int64, float64 or unicode array.

    Raises:
        ZooError: a name that cannot be stored, a shape other than ``(n,)``, or values of another kind.
    """
    check_name("metadata column", name)
    array = as_array(values)
    if array.ndim != 1:
        raise ZooError(f"Metadata column {name} has shape {array.shape}, expected one value a row: (n,).")
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array):
        array = array.astype(np.str_)
    kind = array.dtype.kind
    if kind in "bi" or (kind == "u" and (array.size == 0 or int(array.max()) <= np.iinfo(np.int64).max)):
        return array.astype(np.int64)
    if kind == "f":
        return array.astype(np.float64)
    if kind == "U":
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    raise ZooError(
        f"Metadata column {name} holds {array.dtype} values, which a zoo cannot store. "
        "Columns are integers (64 bits, signed), floats or strings; convert it before writing."
    )


def column_kind(array: np.ndarray) -> str:
    """``int``, ``float`` or ``text``: the kind of a column made by :func:`as_column`."""
    return {"i": "int", "f": "float", "U": "text"}[array.dtype.kind]


def encode_column(name: str, array: np.ndarray) -> np.ndarray:
    """The bytes that are stored and hashed: little-endian numbers, or UTF-8 padded to the longest value.

    Raises:
        ZooError: text that UTF-8 or the zero padding cannot hold.
    """
    if array.dtype.kind != "U":
        return array.astype(array.dtype.newbyteorder("<"), copy=False)
    if (plain := _encode_ascii(array)) is not None:
        return plain
    try:
        encoded = [str(value).encode("utf-8") for value in array]
    except UnicodeEncodeError as err:
        raise ZooError(f"Metadata column {name} holds text that is not valid Unicode: {err}.") from err
    if any(b"\0" in value for value in encoded):
        raise ZooError(f"Metadata column {name} holds a zero character, which a zoo cannot store. Remove it.")
    return np.array(encoded, dtype=f"S{max(1, max(map(len, encoded), default=1))}")


def _encode_ascii(array: np.ndarray) -> np.ndarray | None:
    """The stored bytes of text that is ASCII without zero characters, else None; thousand times faster."""
    codes = np.ascontiguousarray(array).view(np.uint32).reshape(len(array), array.itemsize // 4)
    after_end = codes[:, :-1] == 0
    if (codes > 0x7F).any() or (after_end & (codes[:, 1:] != 0)).any():
        return None
    longest = int((codes != 0).sum(axis=1).max(initial=1))
    return array.astype(f"S{longest}")


def decode_column(name: str, stored: np.ndarray) -> np.ndarray:
    """Inverse of :func:`encode_column`; raises ZooError for a stored type that no zoo holds."""
    if stored.dtype in (np.dtype("<i8"), np.dtype("<f8")):
        return stored.astype(stored.dtype.newbyteorder("="), copy=False)
    if stored.dtype.kind != "S":
        raise ZooError(
            f"Metadata column {name} is stored as {stored.dtype}, expected int64, float64 or text."
        )
    if not (stored.view(np.uint8) & 0x80).any():
        return stored.astype(np.str_)  # a hundred times faster
    try:
        return np.array([value.decode("utf-8") for value in stored.tolist()], dtype=np.str_)
    except UnicodeDecodeError as err:
        raise ZooError(f"Metadata column {name} is not valid UTF-8: {err}.") from err


def as_columns(metadata: Mapping[str, Any], rows: int) -> dict[str, np.ndarray]:
    """All columns by name; raises ZooError as :func:`as_column`, or unless each has ``rows`` values."""
    columns = {name: as_column(name, metadata[name]) for name in sorted(metadata)}
    for name, array in columns.items():
        if len(array) != rows:
            raise ZooError(
                f"Metadata column {name} has {len(array)} values for {rows} rows. Give one value a row."
            )
        encode_column(name, array)
    return columns


class ColumnStream:
    """One column that grows block by block; small blocks are joined, so that each value costs its bytes."""

    _JOINED = 512

    def __init__(self, name: str) -> None:
        self._name, self._kind, self._rows, self._largest = name, "", 0, 0
        self._blocks: list[np.ndarray] = []
        self._small: list[np.ndarray] = []

    def __len__(self) -> int:
        return self._rows

    def check(self, block: np.ndarray) -> None:
        """Raise ZooError for text among numbers."""
        kind = column_kind(block)
        if self._kind and (kind == "text") != (self._kind == "text"):
            raise ZooError(
                f"Metadata column {self._name} holds {kind} here, but {self._kind} in earlier rows."
            )

    def append(self, block: np.ndarray) -> None:
        """Add the values of one block, as :func:`as_column` makes them."""
        kind = column_kind(block)
        self._kind = "float" if {self._kind, kind} == {"int", "float"} else self._kind or kind
        if kind == "int" and len(block):
            self._largest = max(self._largest, int(block.max()), -int(block.min()))
        self._rows += len(block)
        self._small.append(block)
        if len(self._small) == self._JOINED:
            self._join()

    def array(self) -> np.ndarray:
        """``(n,)`` all values; raises ZooError when floats among them would round the integers."""
        if self._kind == "float" and self._largest > 2**53:
            raise ZooError(
                f"Metadata column {self._name} holds floats, and integers up to {self._largest} that they "
                "would round. Write all of it as floats, or all as text."
            )
        self._join()
        return np.concatenate(self._blocks)

    def _join(self) -> None:
        if self._small:
            self._blocks.append(np.concatenate(self._small))
            self._small = []
