"""Crash-safe building of a zoo, shard by shard."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wsl.spec import WeightSpec
from wsl.zoo._checks import check_forward, check_tables
from wsl.zoo._columns import as_columns, column_kind
from wsl.zoo._errors import ZooError
from wsl.zoo._files import replace_file
from wsl.zoo._folder import BuildFolder
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._json import dump_json, load_json
from wsl.zoo._layout import STORED_DTYPES, Architecture, Tables, parameter_table
from wsl.zoo._matrix import as_matrix
from wsl.zoo._reader import read_content
from wsl.zoo._shards import read_shard, read_shard_tables, shard_ranges, write_shard
from wsl.zoo._splits import Split
from wsl.zoo._store import Zoo
from wsl.zoo._writer import write_zoo


class ShardedBuild:
    """Builds ``out`` in shards; killed at any moment, the same call resumes with only the open shard redone.

    Shards and the recipe wait in the folder ``<out>.build``, which :meth:`pack` removes. The finished file
    depends only on what was written, not on interruptions. When ``out`` is already the finished zoo of this
    recipe, nothing is pending and :meth:`pack` returns it. As a context, it leaves no folder behind when an
    exception comes before the first shard.

    Args:
        out: the zoo file to make. It is never overwritten.
        spec, forward: what the rows are and how to run them.
        provenance: JSON object: source data identity, recipe, package version, seed. No times: builds repeat.
        rows: networks in the finished zoo.
        shard_rows: networks in a shard; what is lost at most when the build is killed.
        dtype: ``float32`` or ``float16``, the stored type.

    Raises:
        ZooError: ``out`` or the build folder holds something else (the message says what differs), another
            process is building ``out``, or an argument is unusable.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        spec: WeightSpec,
        forward: ForwardDefinition,
        provenance: Mapping[str, Any],
        rows: int,
        shard_rows: int,
        dtype: str = "float32",
    ) -> None:
        if rows < 1 or shard_rows < 1:
            raise ZooError(f"rows={rows} and shard_rows={shard_rows} must both be at least 1.")
        if dtype not in STORED_DTYPES:
            raise ZooError(f"A zoo stores {' or '.join(STORED_DTYPES)}, given dtype={dtype!r}.")
        check_forward(spec, forward)
        self.out = Path(out).absolute()
        self._spec, self._forward, self._dtype = spec, forward, dtype
        self._name = forward.factory.partition(":")[2]
        self._provenance = load_json("provenance", dump_json("provenance", dict(provenance)))
        self._ranges = shard_ranges(rows, shard_rows)
        recipe = {
            "dtype": dtype,
            "forward": forward.to_dict(),
            "provenance": self._provenance,
            "rows": rows,
            "shard_rows": shard_rows,
            "spec": str(spec),
        }
        self._folder = BuildFolder(self.out, recipe, len(self._ranges))
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
        return sorted(set(range(len(self._ranges))) - set(self._folder.stored()))

    def rows_of(self, shard: int) -> range:
        """The rows that a shard holds."""
        if not 0 <= shard < len(self._ranges):
            raise ZooError(
                f"Shard {shard} does not exist: this build has shards 0 to {len(self._ranges) - 1}."
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
        matrix = as_matrix(parameter_table(self._spec), weights, rows, self._dtype, flagged)
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
                f"{len(self.pending)} of {len(self._ranges)} shards are not written yet: {self.pending[:10]}."
            )
        tables = self._tables(splits)

        def write(partial: Path) -> None:
            write_zoo(partial, tables, [self._blocks()])
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
        parts = [read_shard_tables(self._folder.shard(shard)) for shard in range(len(self._ranges))]
        columns = {name: np.concatenate([part[0][name] for part in parts]) for name in parts[0][0]}
        tables = Tables(
            architectures=(Architecture(self._name, self._spec, self._forward),),
            numbers=np.zeros(sum(map(len, self._ranges)), dtype=np.int32),
            provenance=self._provenance,
            dtype=self._dtype,
            columns=columns,
            splits=dict(splits),
            hashes=np.concatenate([hashes for _, hashes in parts]),
        )
        check_tables(tables)
        return tables

    def _blocks(self) -> Iterator[np.ndarray]:
        for shard in range(len(self._ranges)):
            yield read_shard(self._folder.shard(shard), "weights")

    def _finished_zoo(self, splits: Mapping[str, Split]) -> Zoo:
        zoo = Zoo.open(self.out)
        given = {name: _describe(split) for name, split in splits.items()}
        stored = {name: _describe(split) for name, split in zoo.splits.items()}
        if dump_json("splits", given) != dump_json("splits", stored):
            raise ZooError(
                f"{self.out} is finished, but with other splits. Choose another out, or move that file away."
            )
        return zoo


def _describe(split: Split) -> dict[str, Any]:
    return {"indices": split.indices.tolist(), "recipe": split.recipe, "seed": split.seed}
