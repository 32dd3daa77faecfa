"""Writes one finished zoo file. The same content always gives the same bytes."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._columns import encode_column
from wsl.zoo._files import RefusableFile, open_refusing
from wsl.zoo._json import dump_json
from wsl.zoo._layout import (
    FORMAT,
    STORED_DTYPES,
    VERSION,
    Parameter,
    Tables,
    digest,
)


def write_zoo(path: Path, tables: Tables, blocks: Sequence[Iterable[np.ndarray]]) -> None:
    """Create ``path`` (overwriting it) from its tables and the rows of its architectures.

    The default ``libver`` is kept on purpose: files of ``libver="latest"`` do not survive a killed writer.

    Args:
        blocks: for each architecture its rows, as consecutive ``(n, P)`` blocks. Read one after another.

    Raises:
        OSError: the system refuses, for example for want of room.
    """
    import h5py  # here, so that `import wsl` needs torch and numpy alone

    with (
        open_refusing(path) as target,
        # Aligned to a cache line, so that memory maps of the datasets are aligned too.
        h5py.File(target, "w", alignment_threshold=64, alignment_interval=64) as file,
    ):
        _write_content(file, tables, [_until_refused(target, rows) for rows in blocks])


def _until_refused(target: RefusableFile, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    for block in blocks:
        target.check()
        yield block


def _write_content(file: Any, tables: Tables, blocks: Sequence[Iterable[np.ndarray]]) -> None:
    file.attrs["format"] = np.bytes_(FORMAT)
    file.attrs["format_version"] = np.int64(VERSION)
    file.attrs["digest"] = np.bytes_(digest(tables))
    _write_text(file, "provenance", dump_json("provenance", dict(tables.provenance)))
    columns = file.create_group("columns")
    for name in sorted(tables.columns):
        _write(columns, name, encode_column(name, tables.columns[name]))
    _write(file, "hashes", tables.hashes)
    _write(file, "architecture", tables.numbers.astype("<i4"))
    splits = file.create_group("splits")
    for name in sorted(tables.splits):
        split = tables.splits[name]
        dataset = _write(splits, name, split.indices.astype("<i8"))
        dataset.attrs["recipe"] = np.bytes_(dump_json(f"recipe of split {name}", split.recipe).encode())
        dataset.attrs["seed"] = np.int64(split.seed)
    groups = file.create_group("architectures")
    for number, architecture in enumerate(tables.architectures):
        group = groups.create_group(str(number))
        _write_text(group, "name", architecture.name)
        _write_text(group, "spec", architecture.spec_text)
        _write_text(group, "forward", architecture.forward_text)
        _write(group, "parameters", parameter_records(architecture.parameters))
        shape = (tables.counts[number], architecture.width)
        _write_rows(group, shape, STORED_DTYPES[tables.dtype], blocks[number])


def _write_rows(
    group: Any, shape: tuple[int, int], dtype: np.dtype[Any], blocks: Iterable[np.ndarray]
) -> None:
    weights = group.create_dataset("weights", shape, dtype, track_times=False)
    stop = 0
    for block in blocks:
        start, stop = stop, stop + len(block)
        weights[start:stop] = block
    assert stop == shape[0], f"{stop} rows written, {shape[0]} promised"


def parameter_records(parameters: tuple[Parameter, ...]) -> np.ndarray:
    """The stored parameter table: one record a tensor, shapes padded with zeros to the largest rank."""
    rank = max(1, *(len(parameter.shape) for parameter in parameters))
    names = [parameter.name.encode() for parameter in parameters]
    fields = [
        ("name", f"S{max(map(len, names))}"),
        ("shape", "<i8", (rank,)),
        ("ndim", "<i8"),
        ("offset", "<i8"),
        ("size", "<i8"),
    ]
    records = np.zeros(len(parameters), dtype=np.dtype(fields))
    for record, name, parameter in zip(records, names, parameters, strict=True):
        record["name"] = name
        record["shape"][: len(parameter.shape)] = parameter.shape
        record["ndim"], record["offset"], record["size"] = (
            len(parameter.shape),
            parameter.offset,
            parameter.size,
        )
    return records


def _write(group: Any, name: str, array: np.ndarray) -> Any:
    return group.create_dataset(name, data=array, track_times=False)


def _write_text(group: Any, name: str, text: str) -> None:
    _write(group, name, np.array(text.encode("utf-8")))
