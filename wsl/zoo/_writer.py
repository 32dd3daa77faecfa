"""Writes one finished zoo file. The same content always gives the same bytes."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._columns import encode_column
from wsl.zoo._files import open_refusing
from wsl.zoo._json import dump_json
from wsl.zoo._layout import (
    FORMAT,
    MAGIC,
    STORED_DTYPES,
    VERSION,
    Parameter,
    Tables,
    digest,
)


def write_zoo(path: Path, tables: Tables, blocks: Sequence[Iterable[np.ndarray]]) -> None:
    """Create ``path`` (overwriting it) from its tables and the rows of its architectures.

    Args:
        blocks: for each architecture its rows, as consecutive ``(n, P)`` blocks. Read one after another.

    Raises:
        OSError: the system refuses, for example for want of room.
    """
    offsets, dtype = write_tables(path, tables), STORED_DTYPES[tables.dtype]
    with open(path, "r+b") as file:
        for number, (offset, rows) in enumerate(zip(offsets, blocks, strict=True)):
            file.seek(offset)
            for block in rows:
                file.write(np.ascontiguousarray(block, dtype).data)
            written = file.tell() - offset
            promised = tables.counts[number] * tables.architectures[number].width * dtype.itemsize
            assert written == promised, f"{written} bytes written, {promised} promised"
    complete(path)


def complete(path: Path) -> None:
    """Make the file one that can be opened, once all rows are in it."""
    with open(path, "r+b") as file:
        file.write(MAGIC)


def write_tables(path: Path, tables: Tables) -> list[int]:
    """Create ``path`` (overwriting it) with everything but the rows, whose places are holes.

    Nothing takes it for a zoo before :func:`complete` has been called.

    The default ``libver`` is kept on purpose: files of ``libver="latest"`` do not survive a killed writer.

    Returns:
        For each architecture where its rows lie in the file, in bytes.

    Raises:
        OSError: the system refuses, for example for want of room.
    """
    import h5py  # here, so that `import wsl` needs torch and numpy alone

    with (
        open_refusing(path) as target,
        # Aligned to a cache line, so that memory maps of the datasets are aligned too.
        h5py.File(target, "w", alignment_threshold=64, alignment_interval=64) as file,
    ):
        _write_content(file, tables)
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        settings.set_obj_track_times(False)
        dtype, offsets = h5py.h5t.py_create(STORED_DTYPES[tables.dtype]), []
        for number, architecture in enumerate(tables.architectures):
            space = h5py.h5s.create_simple((tables.counts[number], architecture.width))
            group = file[f"architectures/{number}"]
            offsets.append(h5py.h5d.create(group.id, b"weights", dtype, space, settings).get_offset())
    with open(path, "r+b") as written:
        written.write(bytes(len(MAGIC)))
    return offsets


def _write_content(file: Any, tables: Tables) -> None:
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
