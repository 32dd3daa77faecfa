"""The content of a zoo file other than the weights, and its identity.

One HDF5 file, format version 2::

    /                              attributes format, format_version, digest
    /provenance                    JSON text
    /columns/<name>                (rows,) int64, float64 or UTF-8
    /hashes                        (rows, 16) uint8, blake2b of each row's stored bytes
    /architecture                  (rows,) int32, the number of each row's architecture
    /splits/<name>                 (n,) int64 row numbers; attributes recipe (JSON), seed
    /architectures/<number>/name         text
    /architectures/<number>/spec         text of the WeightSpec
    /architectures/<number>/forward      JSON text of the ForwardDefinition
    /architectures/<number>/parameters   table of name, shape, ndim, offset, size
    /architectures/<number>/weights      (its rows, P) little-endian float32 or float16

Architectures are numbered from 0 on and each has a row. Their weights lie in the order of the rows: the i-th
row of an architecture, among all rows, is row i of its ``weights``. All have the same stored type. Every
dataset is contiguous and uncompressed, so that its bytes lie at one offset of the file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from torch import Tensor

from wsl.spec import WeightSpec
from wsl.zoo._columns import encode_column
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._json import dump_json
from wsl.zoo._splits import Split

MAGIC = b"\x89HDF\r\n\x1a\n"
FORMAT = "wsl-zoo"
VERSION = 2
HASH_BYTES = 16
STORED_DTYPES: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2")}


@dataclass(frozen=True)
class Parameter:
    """One tensor's place in a row: ``row[offset : offset + size].reshape(shape)``."""

    name: str
    shape: tuple[int, ...]
    offset: int
    size: int


def parameter_table(spec: WeightSpec) -> tuple[Parameter, ...]:
    """The tensors of ``spec`` one after another, in its order."""
    table, offset = [], 0
    for name, tensor in spec.tensors.items():
        size = math.prod(tensor.shape)
        table.append(Parameter(name, tuple(tensor.shape), offset, size))
        offset += size
    if offset == 0:
        raise ZooError(
            "The spec has no weights, so there is nothing to store. Trace a module that has parameters."
        )
    return tuple(table)


def row_length(parameters: tuple[Parameter, ...]) -> int:
    """P, the number of values in a row."""
    return parameters[-1].offset + parameters[-1].size


@dataclass(frozen=True, eq=False)
class Architecture:
    """What the networks of one architecture are and how they run, under a name that the zoo gives it."""

    name: str
    spec: WeightSpec
    forward: ForwardDefinition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Architecture) and self._texts == other._texts

    def __hash__(self) -> int:
        return hash(self._texts)

    @property
    def _texts(self) -> tuple[str, str, str]:
        return self.name, self.spec_text, self.forward_text

    @cached_property
    def spec_text(self) -> str:
        return str(self.spec)

    @cached_property
    def forward_text(self) -> str:
        """Its forward definition as it is stored."""
        return dump_json("forward definition", self.forward.to_dict())

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        return parameter_table(self.spec)

    @cached_property
    def width(self) -> int:
        """P, the number of values in a row."""
        return row_length(self.parameters)

    @cached_property
    def _views(self) -> tuple[tuple[str, tuple[int, ...], tuple[int, ...], int], ...]:
        """Name, shape, strides and offset of each tensor in a row."""
        return tuple(
            (
                each.name,
                each.shape,
                tuple(math.prod(each.shape[i + 1 :]) for i in range(len(each.shape))),
                each.offset,
            )
            for each in self.parameters
        )

    def as_tensors(self, flat: Tensor) -> dict[str, Tensor]:
        """``(B, P)``, contiguous -> tensor name -> ``(B, *shape)`` views of it."""
        rows, width = flat.shape
        # as_strided: splitting first would make twice as many tensors, half the time of a small batch
        return {
            name: flat.as_strided((rows, *shape), (width, *strides), offset)
            for name, shape, strides, offset in self._views
        }


@dataclass(frozen=True, eq=False)
class Tables:
    """Everything in a zoo but its weights. Arrays are as :func:`as_columns` and :class:`Split` make them.

    ``numbers`` are ``(rows,)`` int32, the place of each row's architecture in ``architectures``.
    """

    architectures: tuple[Architecture, ...]
    numbers: np.ndarray
    provenance: Mapping[str, Any]
    dtype: str
    columns: Mapping[str, np.ndarray]
    splits: Mapping[str, Split]
    hashes: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.hashes)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Rows of each architecture."""
        return tuple(np.bincount(self.numbers, minlength=len(self.architectures)).tolist())

    @cached_property
    def members(self) -> tuple[np.ndarray, ...]:
        """For each architecture the ``(n,)`` int64 rows that it has, in their order."""
        if len(self.architectures) == 1:
            return (np.arange(self.rows),)
        order = np.argsort(self.numbers, kind="stable")
        return tuple(np.split(order, np.cumsum(self.counts)[:-1]))

    @cached_property
    def places(self) -> np.ndarray:
        """``(rows,)`` int64, the place of each row among those of its architecture."""
        if len(self.architectures) == 1:
            return self.members[0]
        places = np.empty(self.rows, dtype=np.int64)
        for members in self.members:
            places[members] = np.arange(len(members))
        return places


def hash_rows(rows: np.ndarray) -> np.ndarray:
    """16-byte blake2b of each row's bytes as stored: ``(n, P)`` float32 or float16 -> ``(n, 16)`` uint8."""
    stored = np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("<"))
    digests = b"".join(blake2b(row.data, digest_size=HASH_BYTES).digest() for row in stored)
    return np.frombuffer(digests, dtype=np.uint8).reshape(len(stored), HASH_BYTES).copy()


def fingerprint(tables: Tables, encoded: Mapping[str, np.ndarray] | None = None) -> str:
    """Identity of a zoo's content, 32 hex digits: architectures, row hashes, metadata and splits.

    Provenance is left out: the same weights made by another package version are the same content.

    Args:
        encoded: the columns as they are stored, where they are at hand.
    """
    parts: list[tuple[str, bytes | np.ndarray]]
    parts = [("dtype", tables.dtype.encode()), ("hashes", tables.hashes)]
    for architecture in tables.architectures:
        parts += [
            ("architecture", architecture.name.encode()),
            ("spec", architecture.spec_text.encode()),
            ("forward", architecture.forward_text.encode()),
        ]
    parts += [("numbers", tables.numbers.astype("<i4", copy=False))]
    for name in sorted(tables.columns):
        stored = encoded[name] if encoded else encode_column(name, tables.columns[name])
        parts += [(f"column {name}", stored.dtype.str.encode()), ("values", stored)]
    for name in sorted(tables.splits):
        split = tables.splits[name]
        recipe = dump_json(f"recipe of split {name}", {"recipe": split.recipe, "seed": split.seed})
        parts += [(f"split {name}", recipe.encode()), ("indices", split.indices.astype("<i8", copy=False))]
    return _digest(parts)


def digest(tables: Tables, encoded: Mapping[str, np.ndarray] | None = None) -> str:
    """What the file stores and every opening checks: :func:`fingerprint` and the provenance."""
    provenance = dump_json("provenance", dict(tables.provenance))
    return _digest(
        [("fingerprint", fingerprint(tables, encoded).encode()), ("provenance", provenance.encode())]
    )


def _digest(parts: Sequence[tuple[str, bytes | np.ndarray]]) -> str:
    state = blake2b(digest_size=HASH_BYTES)
    for label, content in parts:
        for piece in (label.encode(), _bytes(content)):
            state.update(len(piece).to_bytes(8, "little"))
            state.update(piece)
    return state.hexdigest()


def _bytes(content: bytes | np.ndarray) -> Any:
    """What a hash reads of a part, without a copy."""
    if isinstance(content, bytes):
        return content
    return np.ascontiguousarray(content).view(np.uint8).reshape(-1).data
