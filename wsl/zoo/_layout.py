"""The content of a zoo file other than the weights, and its identity.

One HDF5 file, format version 1::

    /                              attributes format, format_version, digest
    /provenance                    JSON text
    /splits/<name>                 (n,) int64 row numbers; attributes recipe (JSON), seed
    /architectures/0/spec          text of the WeightSpec
    /architectures/0/forward       JSON text of the ForwardDefinition
    /architectures/0/parameters    table of name, shape, ndim, offset, size
    /architectures/0/columns/<name>   (rows,) int64, float64 or UTF-8
    /architectures/0/hashes        (rows, 16) uint8, blake2b of each row's stored bytes
    /architectures/0/weights       (rows, P) little-endian float32 or float16

Every dataset is contiguous and uncompressed, so that its bytes lie at one offset of the file.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from wsl.spec import WeightSpec
from wsl.zoo._columns import encode_column
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._json import dump_json
from wsl.zoo._splits import Split

FORMAT = "wsl-zoo"
VERSION = 1
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
class Tables:
    """Everything in a zoo but its weights. Arrays are as :func:`as_columns` and :class:`Split` make them."""

    spec: WeightSpec
    spec_text: str
    forward: ForwardDefinition
    provenance: Mapping[str, Any]
    dtype: str
    columns: Mapping[str, np.ndarray]
    splits: Mapping[str, Split]
    hashes: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.hashes)


def hash_rows(rows: np.ndarray) -> np.ndarray:
    """16-byte blake2b of each row's bytes as stored: ``(n, P)`` float32 or float16 -> ``(n, 16)`` uint8."""
    stored = np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("<"))
    digests = b"".join(blake2b(row.data, digest_size=HASH_BYTES).digest() for row in stored)
    return np.frombuffer(digests, dtype=np.uint8).reshape(len(stored), HASH_BYTES).copy()


def fingerprint(tables: Tables) -> str:
    """Identity of a zoo's content, 32 hex digits: spec, forward definition, row hashes, metadata and splits.

    Provenance is left out: the same weights made by another package version are the same content.
    """
    parts = [
        ("spec", tables.spec_text.encode()),
        ("forward", dump_json("forward definition", tables.forward.to_dict()).encode()),
        ("dtype", tables.dtype.encode()),
        ("hashes", tables.hashes.tobytes()),
    ]
    for name in sorted(tables.columns):
        stored = encode_column(name, tables.columns[name])
        parts += [(f"column {name}", stored.dtype.str.encode()), ("values", stored.tobytes())]
    for name in sorted(tables.splits):
        split = tables.splits[name]
        recipe = dump_json(f"recipe of split {name}", {"recipe": split.recipe, "seed": split.seed})
        parts += [(f"split {name}", recipe.encode()), ("indices", split.indices.astype("<i8").tobytes())]
    return _digest(parts)


def digest(tables: Tables) -> str:
    """What the file stores and every opening checks: :func:`fingerprint` and the provenance."""
    provenance = dump_json("provenance", dict(tables.provenance))
    return _digest([("fingerprint", fingerprint(tables).encode()), ("provenance", provenance.encode())])


def _digest(parts: list[tuple[str, bytes]]) -> str:
    state = blake2b(digest_size=HASH_BYTES)
    for label, content in parts:
        for piece in (label.encode(), content):
            state.update(len(piece).to_bytes(8, "little"))
            state.update(piece)
    return state.hexdigest()
