"""Crash-safe building of a zoo, shard by shard."""

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wsl.spec import WeightSpec
from wsl.zoo._columns import as_columns, column_kind
from wsl.zoo._errors import ZooError
from wsl.zoo._files import PARTIAL, BuildLock, replace_file, sync
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._json import differences, dump_json, load_json
from wsl.zoo._layout import STORED_DTYPES, Tables
from wsl.zoo._reader import read_content
from wsl.zoo._shards import as_matrix, read_shard, read_shard_tables, shard_ranges, write_shard
from wsl.zoo._splits import Split, check_splits
from wsl.zoo._store import Zoo
from wsl.zoo._writer import write_zoo

logger = logging.getLogger(__name__)


class ShardedBuild:
    """Builds ``out`` in shards; killed at any moment, the same call resumes with only the open shard redone.

    Shards and the recipe wait in the folder ``<out>.build``, which :meth:`pack` removes. The finished file
    depends only on what was written, not on interruptions. When ``out`` is already the finished zoo of this
    recipe, nothing is pending and :meth:`pack` returns it.

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
        _check_forward(spec, forward)
        self.out = Path(out).absolute()
        self.folder = self.out.with_name(self.out.name + ".build")
        self._spec, self._forward, self._dtype = spec, forward, dtype
        self._provenance = load_json("provenance", dump_json("provenance", dict(provenance)))
        self._ranges = shard_ranges(rows, shard_rows)
        self._recipe = {
            "dtype": dtype,
            "forward": forward.to_dict(),
            "provenance": self._provenance,
            "rows": rows,
            "shard_rows": shard_rows,
            "spec": str(spec),
        }
        self._kinds: dict[str, str] | None = None
        self._lock: BuildLock | None = None
        self._finished = self._is_finished()
        if not self._finished:
            self._open_folder()

    @property
    def pending(self) -> list[int]:
        """Numbers of the shards that are not stored yet."""
        if self._finished:
            return []
        return [shard for shard in range(len(self._ranges)) if not self._shard(shard).exists()]

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
            weights: tensor name -> ``(n, *shape)`` tensor or array, ``n = len(rows_of(shard))``.
            metadata: column name -> ``(n,)`` integers, floats or text; the same columns for every shard.

        Raises:
            ZooError: the shard is stored already, or its weights or columns do not fit the spec or others.
        """
        rows = len(self.rows_of(shard))
        if self._finished or self._shard(shard).exists():
            raise ZooError(
                f"Shard {shard} of {self.out} is stored already. Write only the shards in `pending`."
            )
        self._check_open()
        matrix, columns = as_matrix(self._spec, weights, rows, self._dtype), as_columns(metadata, rows)
        kinds = {name: column_kind(array) for name, array in columns.items()}
        if self._kinds not in (None, kinds):
            raise ZooError(
                f"Shard {shard} has the metadata columns {kinds}, but earlier shards have {self._kinds}."
            )
        write_shard(self._shard(shard), matrix, columns)
        self._kinds = kinds

    def pack(self, splits: Mapping[str, Split]) -> Zoo:
        """Put all shards and the splits into ``out``, remove the build folder, and open the zoo.

        Raises:
            ZooError: shards are pending or do not read back, splits overlap or cut a group, or ``out`` is
                finished with other splits.
        """
        if self._finished:
            return self._finished_zoo(splits)
        self._check_open()
        if self.pending:
            raise ZooError(
                f"{len(self.pending)} of {len(self._ranges)} shards are not written yet: {self.pending[:10]}."
            )
        tables = self._tables(splits)

        def write(partial: Path) -> None:
            write_zoo(partial, tables, self._blocks())
            read_content(partial)  # it must read back before it gets its name

        replace_file(self.out, write, partial=self.folder / f"packed{PARTIAL}")
        self._finished = True
        self._remove_folder()
        self.close()
        return Zoo.open(self.out)

    def close(self) -> None:
        """Release the lock; what is stored stays for the next call. Harmless when repeated."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> "ShardedBuild":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._lock is None:
            raise ZooError(f"This build of {self.out} was closed. Call ShardedBuild again to go on with it.")

    def _shard(self, shard: int) -> Path:
        return self.folder / f"shard-{shard:06d}.npz"

    def _is_finished(self) -> bool:
        """Whether ``out`` is this build's finished zoo; raises ZooError when it is anything else."""
        if not os.path.lexists(self.out):
            return False
        try:
            tables = read_content(self.out).tables
        except ZooError as err:
            raise ZooError(
                f"{self.out} exists and is not a whole zoo, so it is not overwritten. "
                f"Move it away or choose another out. {err}"
            ) from err
        found = {
            "dtype": tables.dtype,
            "forward": tables.forward.to_dict(),
            "provenance": dict(tables.provenance),
            "rows": tables.rows,
            "shard_rows": self._recipe["shard_rows"],  # does not change the content, so it is not stored
            "spec": tables.spec_text,
        }
        self._check_same(found, str(self.out), "choose another out, or move that file away")
        self._finish_removal()
        return True

    def _open_folder(self) -> None:
        self._lock = BuildLock(self.folder / "lock")
        try:
            self._finished = self._is_finished()
            if self._finished:  # by another process, before we got the lock
                self._remove_folder()
                self.close()
                return
            for partial in self.folder.glob(f"*{PARTIAL}"):
                partial.unlink()
            stored = [shard for shard in range(len(self._ranges)) if self._shard(shard).exists()]
            recipe = self.folder / "build.json"
            if recipe.exists():
                found = load_json("build recipe", recipe.read_text("utf-8"))
                self._check_same(
                    found, str(self.folder), "choose another out, or delete that folder to give up its shards"
                )
            elif stored:
                raise ZooError(
                    f"{self.folder} has shards but no recipe (build.json), so they cannot be trusted. "
                    "Delete the folder."
                )
            else:
                replace_file(recipe, lambda path: _write_text(path, dump_json("build recipe", self._recipe)))
            if stored:
                columns, _ = read_shard_tables(self._shard(stored[0]))
                self._kinds = {name: column_kind(array) for name, array in columns.items()}
                logger.info(
                    "resuming %s: %d of %d shards are stored", self.out, len(stored), len(self._ranges)
                )
        except BaseException:
            self.close()
            raise

    def _check_same(self, found: Mapping[str, Any], where: str, way_out: str) -> None:
        lines = differences(self._recipe, dict(found))
        if lines:
            more = f"\n  and {len(lines) - 8} more" if len(lines) > 8 else ""
            shown = "\n  ".join(lines[:8])
            raise ZooError(
                f"{where} belongs to another build. To build this one, {way_out}.\n  {shown}{more}"
            )

    def _tables(self, splits: Mapping[str, Split]) -> Tables:
        parts = [read_shard_tables(self._shard(shard)) for shard in range(len(self._ranges))]
        columns = {name: np.concatenate([part[0][name] for part in parts]) for name in parts[0][0]}
        tables = Tables(
            spec=self._spec,
            spec_text=str(self._spec),
            forward=self._forward,
            provenance=self._provenance,
            dtype=self._dtype,
            columns=columns,
            splits=dict(splits),
            hashes=np.concatenate([hashes for _, hashes in parts]),
        )
        check_splits(tables.splits, columns, tables.rows)
        return tables

    def _blocks(self) -> Iterator[np.ndarray]:
        for shard in range(len(self._ranges)):
            yield read_shard(self._shard(shard), "weights")

    def _finished_zoo(self, splits: Mapping[str, Split]) -> Zoo:
        zoo = Zoo.open(self.out)
        given = {name: _describe(split) for name, split in splits.items()}
        stored = {name: _describe(split) for name, split in zoo.splits.items()}
        if dump_json("splits", given) != dump_json("splits", stored):
            raise ZooError(
                f"{self.out} is finished, but with other splits. Choose another out, or move that file away."
            )
        return zoo

    def _finish_removal(self) -> None:
        """Remove this build's folder if a kill came between naming ``out`` and removing the folder."""
        if self._lock is not None or not self.folder.is_dir():
            return
        try:
            self._lock = BuildLock(self.folder / "lock")
        except ZooError:
            return  # the builder that finished it is removing it right now
        recipe = self.folder / "build.json"
        if not recipe.exists() or not differences(
            self._recipe, load_json("build recipe", recipe.read_text("utf-8"))
        ):
            self._remove_folder()
        self.close()

    def _remove_folder(self) -> None:
        for path in [*sorted(self.folder.glob("shard-*.npz")), *self.folder.glob(f"*{PARTIAL}")]:
            path.unlink()
        for name in ("build.json", "lock"):
            (self.folder / name).unlink(missing_ok=True)
        try:
            self.folder.rmdir()
        except OSError:
            logger.warning("%s holds files that are not of the build and was kept", self.folder)
        sync(self.folder.parent)


def _check_forward(spec: WeightSpec, forward: ForwardDefinition) -> None:
    """Raise ZooError unless the module, where this package can build it, has the tensors of the spec."""
    if not forward.is_allowed:
        return
    with torch.random.fork_rng(devices=[]):
        module = forward.build()
    given = {name: tuple(tensor.shape) for name, tensor in spec.tensors.items()}
    parameters = {name for name, _ in module.named_parameters()}
    built = {
        name: tuple(tensor.shape)
        for name, tensor in module.state_dict().items()
        if name in parameters or name in given  # other buffers are constants of the class
    }
    if built != given:
        raise ZooError(
            "The forward definition does not build the network of the spec: its weights could not be run.\n"
            f"  spec: {given}\n  forward: {built}"
        )


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


def _describe(split: Split) -> dict[str, Any]:
    return {"indices": split.indices.tolist(), "recipe": split.recipe, "seed": split.seed}
