"""Reads a zoo file's tables, trusting nothing in it: files from other people are data."""

import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wsl.spec import WeightSpec
from wsl.zoo._columns import check_name, decode_column
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._json import load_json
from wsl.zoo._layout import (
    FORMAT,
    HASH_BYTES,
    STORED_DTYPES,
    VERSION,
    Architecture,
    Parameter,
    Tables,
    digest,
    row_length,
)
from wsl.zoo._map import FileStamp
from wsl.zoo._splits import Split, check_splits
from wsl.zoo._writer import parameter_records

MAGIC = b"\x89HDF\r\n\x1a\n"


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
            return _Reader(h5py, file, stamp).content()
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
    """Strict reading of one open file. Any other h5py exception than ZooError is wrapped by the caller."""

    def __init__(self, h5py: Any, file: Any, stamp: FileStamp) -> None:
        self.h5py, self.file, self.stamp = h5py, file, stamp

    def content(self) -> Content:
        self.check_format()
        hashes, _ = self.dataset(self.file, "hashes")
        rows = hashes.shape[0] if hashes.shape else 0
        encoded = self.columns(rows)
        columns = {name: decode_column(name, stored) for name, stored in encoded.items()}
        splits = self.splits()
        check_splits(splits, columns, rows)
        architectures, dtype, stored = self.architectures()
        tables = Tables(
            architectures=architectures,
            numbers=self.numbers(rows, [shape[0] for _, shape in stored]),
            provenance=load_json("provenance", self.text(self.file, "provenance")),
            dtype=dtype,
            columns=columns,
            splits=splits,
            hashes=self.array(self.file, "hashes", "u1", (rows, HASH_BYTES)),
        )
        written = self.attribute(self.file, "digest")
        found = digest(tables, encoded)
        if found != written:
            raise ZooError(
                f"its tables are damaged: their digest is {found}, but the file says {written}. "
                "Copy it again from its source, or build it again."
            )
        return Content(tables, tuple(stored), written, self.stamp)

    def architectures(self) -> tuple[tuple[Architecture, ...], str, list[Stored]]:
        parent = self.group(self.file, "architectures")
        numbers = [str(number) for number in range(len(parent))]
        if not numbers or set(parent) != set(numbers):
            raise ZooError(
                f"it numbers its architectures {sorted(parent)[:10]}, expected 0, 1, … without a gap."
            )
        found = [self.architecture(self.group(parent, number)) for number in numbers]
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
        text = self.text(group, "spec")
        try:
            spec = WeightSpec.parse(text)
        except ValueError as err:
            raise ZooError(f"its weight-space specification does not parse: {err}") from err
        name = self.text(group, "name")
        check_name("architecture", name)
        forward = ForwardDefinition.from_dict(load_json("forward definition", self.text(group, "forward")))
        architecture = Architecture(name, spec, forward)
        dtype, stored = self.weights(group)
        self.check_parameters(group, architecture.parameters, stored.shape)
        return architecture, dtype, stored

    def numbers(self, rows: int, counts: list[int]) -> np.ndarray:
        numbers = self.array(self.file, "architecture", "<i4", (rows,))
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
        if self.attribute(self.file, "format") != FORMAT:
            raise ZooError(
                "this is an HDF5 file but not a zoo (no format mark). Give the path of a file that "
                "`python -m wsl zoo build` has written."
            )
        version = self.file.attrs["format_version"]
        if not isinstance(version, np.integer) or version < 1:
            raise ZooError(
                f"its format version is {version!r}, expected a positive integer. The file is damaged."
            )
        if version < VERSION:
            raise ZooError(
                f"it has zoo format {version}, and this version of wsl reads format {VERSION}. "
                "Build it again with the command that made it."
            )
        if version > VERSION:
            raise ZooError(
                f"it has zoo format {version}, and this version of wsl reads format {VERSION}. "
                "Upgrade wsl to open it."
            )

    def attribute(self, owner: Any, name: str) -> str:
        value = owner.attrs.get(name, b"")
        return value.decode("utf-8") if isinstance(value, bytes) else str(value)

    def group(self, parent: Any, name: str) -> Any:
        return self.child(parent, name, self.h5py.Group)

    def child(self, parent: Any, name: str, kind: type) -> Any:
        if name not in parent:
            raise ZooError(
                f"it has no {parent.name.rstrip('/')}/{name}. The file is damaged: copy or build it again."
            )
        # A soft or external link could lead out of this file.
        if not isinstance(parent.get(name, getlink=True), self.h5py.HardLink):
            raise ZooError(f"{name} is a link in {parent.name}, which a zoo never has.")
        item = parent[name]
        if not isinstance(item, kind):
            raise ZooError(f"{item.name} is a {type(item).__name__}, expected a {kind.__name__}.")
        return item

    def dataset(self, parent: Any, name: str) -> tuple[Any, int]:
        """A dataset whose bytes certainly lie inside this file, and their offset."""
        item = self.child(parent, name, self.h5py.Dataset)
        layout = item.id.get_create_plist()
        if layout.get_layout() != self.h5py.h5d.CONTIGUOUS or layout.get_external_count():
            raise ZooError(
                f"{item.name} is not stored as one contiguous piece, as every dataset of a zoo is."
            )
        offset, size = item.id.get_offset(), math.prod(item.shape) * item.dtype.itemsize
        if offset is None or size == 0 or item.dtype.hasobject:
            raise ZooError(f"{item.name} is empty or has no fixed size ({item.shape}, {item.dtype}).")
        if offset + size > self.stamp.size or item.id.get_storage_size() != size:
            raise ZooError(
                f"{item.name} claims {size} bytes from {offset} on, but the file has {self.stamp.size}. "
                "It is truncated or damaged: copy it again, or build it again."
            )
        return item, offset

    def array(self, parent: Any, name: str, dtype: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
        item, _ = self.dataset(parent, name)
        if item.dtype != np.dtype(dtype) or (shape is not None and item.shape != shape):
            raise ZooError(
                f"{item.name} is {item.dtype} {item.shape}, expected {np.dtype(dtype)} {shape or ''}."
            )
        values: np.ndarray = item[()]
        return values

    def text(self, parent: Any, name: str) -> str:
        item, _ = self.dataset(parent, name)
        if item.dtype.kind != "S" or item.shape != ():
            raise ZooError(f"{item.name} is {item.dtype} {item.shape}, expected one text.")
        return bytes(item[()]).decode("utf-8")

    def weights(self, group: Any) -> tuple[str, Stored]:
        item, offset = self.dataset(group, "weights")
        names = [name for name, dtype in STORED_DTYPES.items() if item.dtype == dtype]
        if not names or len(item.shape) != 2:
            raise ZooError(
                f"{item.name} is {item.dtype} {item.shape}, expected float32 or float16 (rows, P)."
            )
        return names[0], Stored(offset, item.shape)

    def check_parameters(self, group: Any, expected: tuple[Parameter, ...], shape: tuple[int, int]) -> None:
        records = parameter_records(expected)
        stored, _ = self.dataset(group, "parameters")
        if (
            stored.dtype != records.dtype
            or stored.shape != records.shape
            or stored[()].tobytes() != records.tobytes()
        ):
            raise ZooError(
                "its parameter table disagrees with its weight-space specification. The file is damaged."
            )
        if shape[1] != row_length(expected):
            raise ZooError(
                f"its rows have {shape[1]} values, but its specification has {row_length(expected)}."
            )

    def columns(self, rows: int) -> dict[str, np.ndarray]:
        group = self.group(self.file, "columns")
        columns = {}
        for name in sorted(group):
            item, _ = self.dataset(group, name)
            if item.shape != (rows,):
                raise ZooError(f"metadata column {name} has shape {item.shape}, expected ({rows},).")
            columns[name] = item[()]
        return columns

    def splits(self) -> dict[str, Split]:
        group = self.group(self.file, "splits")
        splits = {}
        for name in sorted(group):
            indices = self.array(group, name, "<i8")
            recipe = load_json(f"recipe of split {name}", self.attribute(group[name], "recipe"))
            splits[name] = Split(indices, recipe, int(group[name].attrs["seed"]))
        return splits
