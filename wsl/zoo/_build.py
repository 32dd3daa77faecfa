"""Crash-safe building of a zoo, shard by shard."""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._checks import check_forward, check_tables
from wsl.zoo._columns import as_columns, check_name, column_kind
from wsl.zoo._errors import ZooError
from wsl.zoo._files import replace_file
from wsl.zoo._folder import BuildFolder, build_recipe
from wsl.zoo._json import dump_json, load_json
from wsl.zoo._layout import STORED_DTYPES, Architecture, Tables
from wsl.zoo._matrix import as_matrix
from wsl.zoo._reader import read_content
from wsl.zoo._shards import Shard, read_shard, read_shard_tables, write_shard
from wsl.zoo._splits import Split
from wsl.zoo._store import Zoo
from wsl.zoo._writer import write_zoo


class ShardedBuild:
    """Builds ``out`` in shards; killed at any moment, the same call resumes with only the open shard redone.

    Shards and the recipe wait in the folder ``<out>.build``, which :meth:`pack` removes. The finished file
    depends only on what was written, not on interruptions. When ``out`` is already the finished zoo of this
    recipe, nothing is pending and :meth:`pack` returns it. As a context, it leaves no folder behind when an
    exception comes before the first shard. :meth:`pack` takes the room of the weights a second time: shards
    stay until ``out`` has its name, so that a kill loses nothing.

    Args:
        out: the zoo file to make. It is never overwritten.
        architectures: what the rows are and how to run them; each has a shard.
        shards: how many rows each shard has, and of which architecture. A shard is what is lost at most when
            the build is killed.
        provenance: JSON object: source data identity, recipe, package version, seed. No times: builds repeat.
        dtype: ``float32`` or ``float16``, the stored type.

    Raises:
        ZooError: ``out`` or the build folder holds something else (the message says what differs), another
            process is building ``out``, or an argument is unusable.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        architectures: Sequence[Architecture],
        shards: Sequence[Shard],
        provenance: Mapping[str, Any],
        dtype: str = "float32",
    ) -> None:
        if dtype not in STORED_DTYPES:
            raise ZooError(f"A zoo stores {' or '.join(STORED_DTYPES)}, given dtype={dtype!r}.")
        _check_architectures(architectures, shards)
        self.out = Path(out).absolute()
        self._architectures, self._shards, self._dtype = tuple(architectures), tuple(shards), dtype
        self._provenance = load_json("provenance", dump_json("provenance", dict(provenance)))
        stops = list(accumulate(shard.rows for shard in shards))
        self._ranges = [range(stop - shard.rows, stop) for stop, shard in zip(stops, shards, strict=True)]
        recipe = build_recipe(architectures, self._numbers, self._provenance, dtype)
        recipe["shards"] = [list(shard) for shard in shards]
        self._folder = BuildFolder(self.out, recipe, len(self._shards))
        self._kinds: dict[str, str] | None = None
        for shard in self._folder.stored()[:1]:
            columns, _ = read_shard_tables(self._folder.shard(shard))
            self._kinds = {name: column_kind(array) for name, array in columns.items()}

    @property
    def folder(self) -> Path:
        """Where shards wait until the build is packed."""
        return self._folder.path

    @property
    def pending(self) -> list[int]:
        """Numbers of the shards that are not stored yet."""
        if self._folder.finished:
            return []
        return sorted(set(range(len(self._shards))) - set(self._folder.stored()))

    def rows_of(self, shard: int) -> range:
        """The rows that a shard holds."""
        if not 0 <= shard < len(self._shards):
            raise ZooError(
                f"Shard {shard} does not exist: this build has shards 0 to {len(self._shards) - 1}."
            )
        return self._ranges[shard]

    def write(self, shard: int, weights: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Store one shard. On return it is on the disk and survives a kill or a power cut.

        Args:
            weights: tensor name -> ``(n, *shape)`` tensor or array, ``n = len(rows_of(shard))``. Networks
                with values that are not finite need a column ``diverged`` that is not 0 for them.
            metadata: column name -> ``(n,)`` integers, floats or text; the same columns for every shard.

        Raises:
            ZooError: the shard is stored already, or its weights or columns do not fit the spec or others.
        """
        rows = len(self.rows_of(shard))
        path = self._folder.shard(shard)
        if self._folder.finished or path.exists():
            raise ZooError(
                f"Shard {shard} of {self.out} is stored already. Write only the shards in `pending`."
            )
        self._folder.check_open()
        columns = as_columns(metadata, rows)
        diverged = columns.get("diverged")
        flagged = None if diverged is None else diverged != 0
        parameters = self._architectures[self._shards[shard].architecture].parameters
        matrix = as_matrix(parameters, weights, rows, self._dtype, flagged)
        kinds = {name: column_kind(array) for name, array in columns.items()}
        if self._kinds not in (None, kinds):
            raise ZooError(
                f"Shard {shard} has the metadata columns {kinds}, but earlier shards have {self._kinds}."
            )
        write_shard(path, matrix, columns)
        self._kinds = kinds

    def pack(self, splits: Mapping[str, Split]) -> Zoo:
        """Put all shards and the splits into ``out``, remove the build folder, and open the zoo.

        Raises:
            ZooError: shards are pending or do not read back, splits overlap or cut a group, or ``out`` is
                finished with other splits.
        """
        if self._folder.finished:
            return self._finished_zoo(splits)
        self._folder.check_open()
        if self.pending:
            raise ZooError(
                f"{len(self.pending)} of {len(self._shards)} shards are not written yet: {self.pending[:10]}."
            )
        tables = self._tables(splits)

        def write(partial: Path) -> None:
            write_zoo(partial, tables, [self._blocks(i) for i in range(len(self._architectures))])
            read_content(partial)  # it must read back before it gets its name

        replace_file(self.out, write, partial=self._folder.packed)
        self._folder.remove()
        return Zoo.open(self.out)

    def close(self) -> None:
        """Release the lock; what is stored stays for the next call. Harmless when repeated."""
        self._folder.close()

    def __enter__(self) -> "ShardedBuild":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._folder.abandon()
        self.close()

    def _tables(self, splits: Mapping[str, Split]) -> Tables:
        parts = [read_shard_tables(self._folder.shard(shard)) for shard in range(len(self._shards))]
        columns = {name: np.concatenate([part[0][name] for part in parts]) for name in parts[0][0]}
        tables = Tables(
            architectures=self._architectures,
            numbers=self._numbers,
            provenance=self._provenance,
            dtype=self._dtype,
            columns=columns,
            splits=dict(splits),
            hashes=np.concatenate([hashes for _, hashes in parts]),
        )
        check_tables(tables)
        return tables

    @property
    def _numbers(self) -> np.ndarray:
        """``(rows,)`` int32, the architecture of each row."""
        numbers = np.array([shard.architecture for shard in self._shards], dtype=np.int32)
        return np.repeat(numbers, [shard.rows for shard in self._shards])

    def _blocks(self, architecture: int) -> Iterator[np.ndarray]:
        for number, shard in enumerate(self._shards):
            if shard.architecture == architecture:
                yield read_shard(self._folder.shard(number), "weights")

    def _finished_zoo(self, splits: Mapping[str, Split]) -> Zoo:
        zoo = Zoo.open(self.out)
        given = {name: _describe(split) for name, split in splits.items()}
        stored = {name: _describe(split) for name, split in zoo.splits.items()}
        if dump_json("splits", given) != dump_json("splits", stored):
            raise ZooError(
                f"{self.out} is finished, but with other splits. Choose another out, or move that file away."
            )
        return zoo


def _check_architectures(architectures: Sequence[Architecture], shards: Sequence[Shard]) -> None:
    names = [architecture.name for architecture in architectures]
    if len(set(names)) != len(names):
        raise ZooError(f"Architectures need names of their own, given {names}.")
    if {shard.architecture for shard in shards} != set(range(len(names))):
        raise ZooError(f"Each of the {len(names)} architectures needs a shard, and each shard one of them.")
    if any(shard.rows < 1 for shard in shards):
        raise ZooError("A shard has no rows. Leave it out.")
    for architecture in architectures:
        check_name("architecture", architecture.name)
        check_forward(architecture.spec, architecture.forward)
        assert architecture.parameters


def _describe(split: Split) -> dict[str, Any]:
    return {"indices": split.indices.tolist(), "recipe": split.recipe, "seed": split.seed}
