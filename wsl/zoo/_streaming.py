"""Writing a zoo from a stream of rows, and reading one as a stream: memory does not grow with the weights."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from wsl.zoo._architecture import ZooArchitecture
from wsl.zoo._checks import check_forward, check_tables
from wsl.zoo._columns import ColumnStream, as_columns, check_name
from wsl.zoo._errors import ZooError
from wsl.zoo._json import dump_json, load_json
from wsl.zoo._layout import STORED_DTYPES, Architecture, Tables, digest, hash_rows
from wsl.zoo._map import Rows, select
from wsl.zoo._matrix import as_matrix
from wsl.zoo._reader import read_content
from wsl.zoo._splits import Split
from wsl.zoo._store import Zoo
from wsl.zoo._writer import complete, write_tables
from wsl.zoo._writing import WritingFolder

BLOCK_BYTES = 16 << 20


class ZooWriter:
    """Writes ``out`` from rows that come one block after another, of one architecture or several.

    Rows wait in the folder ``<out>.writing`` and become the zoo in :meth:`finish`, which gives the file its
    name only when it is whole. As a context, it leaves no folder behind, also on errors. What a killed writer
    left is removed by the next one; for builds that resume, see :class:`ShardedBuild`. At no time do folder
    and file take more room than the finished zoo and 16 MiB: rows move from one into the other.

        with ZooWriter("cnns.h5", provenance={"source": "..."}) as writer:
            writer.add(Architecture("cnn", spec, forward))
            writer.append("cnn", weights, {"model": [0, 1], "step": [86, 86]})
            zoo = writer.finish()

    Args:
        out: the zoo file to make. It is never overwritten.
        provenance: JSON object: source data identity, recipe, package version, seed.
        dtype: ``float32`` or ``float16``, the stored type.

    Raises:
        ZooError: ``out`` exists, another process writes it, or an argument is unusable.
    """

    def __init__(
        self, out: str | os.PathLike[str], *, provenance: Mapping[str, Any], dtype: str = "float32"
    ) -> None:
        if dtype not in STORED_DTYPES:
            raise ZooError(f"A zoo stores {' or '.join(STORED_DTYPES)}, given dtype={dtype!r}.")
        self.out, self._dtype = Path(out).absolute(), dtype
        self._provenance = load_json("provenance", dump_json("provenance", dict(provenance)))
        self._architectures: list[Architecture] = []
        self._numbers = ColumnStream("architecture")
        self._hashes: list[np.ndarray] = []
        self._columns: dict[str, ColumnStream] | None = None
        self._begun: tuple[str, list[int]] | None = None  # digest of the tables, places of the rows
        self._folder = WritingFolder(self.out)

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, architecture: Architecture) -> None:
        """Declare an architecture before its first rows.

        Raises:
            ZooError: its forward definition builds another network, or the name cannot be stored or is taken.
        """
        check_name("architecture", architecture.name)
        if any(known.name == architecture.name for known in self._architectures):
            raise ZooError(f"Architecture {architecture.name} was added already. Give each its own name.")
        check_forward(architecture.spec, architecture.forward)
        assert architecture.parameters
        self._architectures.append(architecture)

    def append(
        self, architecture: str, weights: Mapping[str, Any] | np.ndarray, metadata: Mapping[str, Any]
    ) -> None:
        """Append rows; they are numbered in the order in which they come.

        Args:
            architecture: the name of one that was added.
            weights: tensor name -> ``(n, *shape)`` tensor or array; or ``(n, P)``, the tensors side by side
                in the order of the spec. Networks with values that are not finite need a column ``diverged``
                that is not 0 for them.
            metadata: column name -> ``(n,)`` integers, floats or text; the same columns every time. Integers
                in one block and floats in another make floats.

        Raises:
            ZooError: weights or columns that do not fit, or a disk that refuses. Nothing is appended then.
        """
        self._check_open()
        if self._begun is not None:
            raise ZooError(f"{self.out} is finished in part already, and takes no more rows. Call finish.")
        names = [known.name for known in self._architectures]
        if architecture not in names:
            raise ZooError(
                f"There is no architecture {architecture!r} yet; added are {names}. Call add first."
            )
        number = names.index(architecture)
        rows = _count(weights)
        columns = as_columns(metadata, rows)
        diverged = columns.get("diverged")
        matrix = as_matrix(
            self._architectures[number].parameters,
            weights,
            rows,
            self._dtype,
            flagged=None if diverged is None else diverged != 0,
        )
        if self._columns is None:
            self._columns = {name: ColumnStream(name) for name in columns}
        if set(columns) != set(self._columns):
            raise ZooError(
                f"These rows have the metadata columns {sorted(columns)}, but earlier ones have "
                f"{sorted(self._columns)}. Give every row the same columns."
            )
        for name, stream in self._columns.items():
            stream.check(columns[name])
        self._spool(number, matrix)
        self._hashes.append(hash_rows(matrix))
        self._numbers.append(np.full(rows, number))
        for name, stream in self._columns.items():
            stream.append(columns[name])

    def finish(self, splits: Mapping[str, Split] | None = None) -> Zoo:
        """Put everything into ``out``, remove the folder, and open the zoo.

        Raises:
            ZooError: there are no rows, an architecture has none, splits overlap or cut a group, two rows
                have one (model, step), or the disk refuses.
        """
        self._check_open()
        if not len(self):
            raise ZooError(f"No rows were given for {self.out}, and a zoo needs at least one.")
        tables = Tables(
            architectures=tuple(self._architectures),
            numbers=self._numbers.array().astype(np.int32),
            provenance=self._provenance,
            dtype=self._dtype,
            columns={name: stream.array() for name, stream in (self._columns or {}).items()},
            splits=dict(splits or {}),
            hashes=np.concatenate(self._hashes),
        )
        check_tables(tables)
        self._folder.finish(lambda packed: self._pack(packed, tables))
        self.close()
        return Zoo.open(self.out)

    def close(self) -> None:
        """Remove the folder and what waits in it. Harmless when repeated, and after :meth:`finish`."""
        self._folder.close()

    def __enter__(self) -> "ZooWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if not self._folder.is_open:
            raise ZooError(f"This writer of {self.out} was closed. Make a new one.")

    def _spool(self, number: int, matrix: np.ndarray) -> None:
        path = self._folder.rows(number)
        before = path.stat().st_size if path.exists() else 0
        try:
            with open(path, "ab") as file:
                file.write(matrix.data)
        except OSError as err:
            with suppress(OSError):
                os.truncate(path, before)
            raise ZooError(
                f"{path} could not be written: {err.strerror}. Make room and start again."
            ) from err

    def _pack(self, packed: Path, tables: Tables) -> None:
        """Move all rows into ``packed``; after an error it goes on where it was."""
        identity = digest(tables)
        if self._begun is None:
            self._begun = identity, write_tables(packed, tables)
        begun, offsets = self._begun
        if begun != identity:
            raise ZooError(f"{self.out} is finished in part, with other splits. Finish it with the same.")
        with open(packed, "r+b", buffering=0) as target:
            for number, offset in enumerate(offsets):
                _move(self._folder.rows(number), target.fileno(), offset)
        complete(packed)
        read_content(packed)  # it must read back before it gets its name


def _move(source: Path, target: int, offset: int) -> None:
    """Move a file's bytes to an offset of another: the last ones first, so that it shrinks meanwhile."""
    with open(source, "r+b", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        while size:
            start = (size - 1) // BLOCK_BYTES * BLOCK_BYTES
            block = memoryview(os.pread(file.fileno(), size - start, start))
            done = 0
            while done < len(block):
                done += os.pwrite(target, block[done:], offset + start + done)
            file.truncate(start)
            size = start


class RowBlock(NamedTuple):
    """Some rows of one architecture: their numbers in the whole zoo, weights and metadata."""

    architecture: ZooArchitecture
    rows: np.ndarray
    weights: dict[str, Tensor]
    metadata: dict[str, np.ndarray]


def iter_rows(zoo: Zoo, rows: Rows = None, *, block_bytes: int = BLOCK_BYTES) -> Iterator[RowBlock]:
    """Read a zoo block by block: at any time one block of about ``block_bytes`` is in memory.

    Blocks come in the order of ``rows``; in a zoo of several architectures, rows of different ones that lie
    close together are grouped by architecture.

    Args:
        rows: row numbers, a boolean mask, a slice, or None for all.
    """
    widest = max(view.width for view in zoo.architectures.values())
    step = max(1, block_bytes // (4 * widest))
    chosen = np.arange(len(zoo))[select(rows, len(zoo))]
    for start in range(0, len(chosen), step):
        numbers = chosen[start : start + step]
        for part in zoo.locate(numbers):
            metadata = {name: column[numbers[part.positions]] for name, column in zoo.metadata.items()}
            yield RowBlock(part.architecture, numbers[part.positions], part.weights(), metadata)


def _count(weights: Mapping[str, Any] | np.ndarray) -> int:
    first = next(iter(weights.values()), ()) if isinstance(weights, Mapping) else weights
    return len(first)
