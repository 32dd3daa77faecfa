"""Reads a zoo file's tables, trusting nothing in it: files from other people are data."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wsl.zoo._columns import check_name, decode_column
from wsl.zoo._errors import ZooError
from wsl.zoo._hdf5 import Dataset, StrictFile
from wsl.zoo._json import load_json
from wsl.zoo._layout import (
    FORMAT,
    HASH_BYTES,
    MAGIC,
    STORED_DTYPES,
    VERSION,
    Architecture,
    Tables,
    digest,
)
from wsl.zoo._map import FileStamp
from wsl.zoo._splits import Split, check_splits
from wsl.zoo._stored import StoredArchitecture


class Stored(NamedTuple):
    """Where an architecture's weights lie in the file, and their ``(rows, P)``."""

    offset: int
    shape: tuple[int, int]


class Content(NamedTuple):
    """A zoo file's tables, and where the weights of each architecture lie."""

    tables: Tables
    stored: tuple[Stored, ...]
    digest: str
    stamp: FileStamp


def read_content(path: Path) -> Content:
    """Read and check everything but the weights; the file is closed again on return.

    Raises:
        ZooError: the file is missing, not a zoo, of a newer format, truncated, damaged, or inconsistent.
    """
    _check_file(path)
    import h5py  # here, so that `import wsl` needs torch and numpy alone

    try:
        stamp = FileStamp.of(path.stat())
        with h5py.File(path, "r") as file:
            return _Reader(StrictFile(h5py, file, stamp.size), path, stamp).content()
    except ZooError as err:
        raise ZooError(f"{path}: {err}") from err.__cause__
    except Exception as err:  # h5py raises nearly every type on damaged metadata
        raise ZooError(
            f"{path} is damaged and cannot be read as a zoo ({type(err).__name__}: {err}). "
            "It may be cut off by an interrupted copy: copy or download it again, or build it again."
        ) from err


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise ZooError(f"{path} is a folder, expected a zoo file. Give the path of the .h5 file itself.")
    try:
        with open(path, "rb") as file:
            start = file.read(len(MAGIC))
    except FileNotFoundError as err:
        if Path(f"{path}.build").is_dir():
            hint = (
                f"Its build in {path}.build is not finished: run the same build command again to resume it."
            )
        elif Path(f"{path}.writing").is_dir():
            hint = (
                f"It is being written in {path}.writing, or was when a command was stopped: wait for it, "
                "or run it again."
            )
        else:
            hint = f"Check the path, or build it: python -m wsl zoo build --config CONFIG --out {path}"
        raise ZooError(f"There is no zoo at {path}. {hint}") from err
    except OSError as err:
        raise ZooError(
            f"{path} cannot be read: {os.strerror(err.errno or 0)}. Check the path and its permissions."
        ) from err
    if not start:
        raise ZooError(
            f"{path} is an empty file, expected a zoo. Copy it again, or delete it and build it again."
        )
    if start != MAGIC:
        raise ZooError(
            f"{path} is not a zoo: it does not start as an HDF5 file does. "
            "If it should be one, it is damaged: copy it again, or build it again."
        )


class _Reader:
    """Checks one open file. Any other exception than ZooError is wrapped by the caller."""

    def __init__(self, file: StrictFile, path: Path, stamp: FileStamp) -> None:
        self.file, self.path, self.stamp = file, path, stamp

    def content(self) -> Content:
        self.check_format()
        file, root = self.file, self.file.root
        shape = file.dataset(root, "hashes").shape
        rows = shape[0] if shape else 0
        encoded = self.columns(rows)
        columns = {name: decode_column(name, stored) for name, stored in encoded.items()}
        splits = self.splits()
        check_splits(splits, columns, rows)
        architectures, dtype, stored = self.architectures()
        tables = Tables(
            architectures=architectures,
            numbers=self.numbers(rows, [shape[0] for _, shape in stored]),
            provenance=load_json("provenance", file.text(root, "provenance")),
            dtype=dtype,
            columns=columns,
            splits=splits,
            hashes=file.array(root, "hashes", "u1", (rows, HASH_BYTES)),
        )
        written = str(file.attribute(root, "digest"))
        found = digest(tables, encoded)
        if found != written:
            raise ZooError(
                f"its tables are damaged: their digest is {found}, but the file says {written}. "
                "Copy it again from its source, or build it again."
            )
        return Content(tables, tuple(stored), written, self.stamp)

    def architectures(self) -> tuple[tuple[Architecture, ...], str, list[Stored]]:
        parent = self.file.group(self.file.root, "architectures")
        given = self.file.names(parent)
        numbers = [str(number) for number in range(len(given))]
        if not numbers or set(given) != set(numbers):
            raise ZooError(f"it numbers its architectures {given[:10]}, expected 0, 1, … without a gap.")
        found = [self.architecture(self.file.group(parent, number)) for number in numbers]
        names, dtypes = [architecture.name for architecture, _, _ in found], {dtype for _, dtype, _ in found}
        if len(set(names)) != len(names) or len(dtypes) > 1:
            raise ZooError(
                f"its architectures are named {names[:10]} and store {sorted(dtypes)}, expected distinct "
                "names and one type. The file is damaged."
            )
        return (
            tuple(architecture for architecture, _, _ in found),
            dtypes.pop(),
            [stored for _, _, stored in found],
        )

    def architecture(self, group: Any) -> tuple[Architecture, str, Stored]:
        """One architecture. Its texts are parsed where they are first asked for: a zoo may have thousands."""
        spec, forward = self.file.text(group, "spec"), self.file.text(group, "forward")
        name = self.file.text(group, "name")
        check_name("architecture", name)
        weights = self.file.dataset(group, "weights")
        records = self.file.bytes_of(group, "parameters")
        dtype, stored = _stored_weights(weights)
        return StoredArchitecture(self.path, name, spec, forward, records, stored.shape[1]), dtype, stored

    def numbers(self, rows: int, counts: list[int]) -> np.ndarray:
        numbers = self.file.array(self.file.root, "architecture", "<i4", (rows,))
        if numbers.min() < 0 or numbers.max() >= len(counts):
            raise ZooError(
                f"its rows name architectures {numbers.min()} to {numbers.max()}, but it has {len(counts)}."
            )
        named = np.bincount(numbers, minlength=len(counts)).tolist()
        if named != counts:
            raise ZooError(
                f"its rows of each architecture are {named[:10]}, but weights are stored for {counts[:10]}."
            )
        return numbers.astype(np.int32)

    def check_format(self) -> None:
        if self.file.attribute(self.file.root, "format") != FORMAT:
            raise ZooError(
                "this is an HDF5 file but not a zoo (no format mark). Give the path of a file that "
                "`python -m wsl zoo build` has written."
            )
        version = self.file.attribute(self.file.root, "format_version")
        if not isinstance(version, np.integer) or version < 1:
            raise ZooError(
                f"its format version is {version!r}, expected a positive integer. The file is damaged."
            )
        if version != VERSION:
            way_out = (
                "Build it again with the command that made it."
                if version < VERSION
                else ("Upgrade wsl to open it.")
            )
            raise ZooError(
                f"it has zoo format {version}, and this version of wsl reads format {VERSION}. {way_out}"
            )

    def columns(self, rows: int) -> dict[str, np.ndarray]:
        group = self.file.group(self.file.root, "columns")
        columns = {}
        for name in self.file.names(group):
            item = self.file.dataset(group, name)
            if item.shape != (rows,):
                raise ZooError(f"metadata column {name} has shape {item.shape}, expected ({rows},).")
            columns[name] = self.file.read(item)
        return columns

    def splits(self) -> dict[str, Split]:
        group = self.file.group(self.file.root, "splits")
        splits = {}
        for name in self.file.names(group):
            indices = self.file.array(group, name, "<i8")
            recipe = str(self.file.attribute_of(group, name, "recipe"))
            seed = int(self.file.attribute_of(group, name, "seed"))
            splits[name] = Split(indices, load_json(f"recipe of split {name}", recipe), seed)
        return splits


def _stored_weights(item: Dataset) -> tuple[str, Stored]:
    names = [name for name, dtype in STORED_DTYPES.items() if item.dtype == dtype]
    if not names or len(item.shape) != 2:
        raise ZooError(f"{item.name} is {item.dtype} {item.shape}, expected float32 or float16 (rows, P).")
    return names[0], Stored(item.offset, (item.shape[0], item.shape[1]))
