"""The folder of an unfinished build, and whether the finished zoo is there already."""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wsl._files import sync
from wsl.zoo._errors import ZooError
from wsl.zoo._files import PARTIAL, BuildLock, replace_file
from wsl.zoo._json import differences, dump_json, load_json
from wsl.zoo._layout import Architecture
from wsl.zoo._reader import read_content

logger = logging.getLogger(__name__)


class BuildFolder:
    """``<out>.build`` with its lock, its recipe and its shards; held by one process at a time.

    Args:
        out: the zoo file that the build makes.
        recipe: JSON object that identifies the build; what is stored must have been made by the same.
        shards: their number.

    Raises:
        ZooError: ``out`` or the folder belongs to another recipe, or another process holds the lock.
    """

    def __init__(self, out: Path, recipe: Mapping[str, Any], shards: int) -> None:
        self.out, self.path, self.shards = out, out.with_name(out.name + ".build"), shards
        self._recipe = dict(recipe)
        self._lock: BuildLock | None = None
        self.finished = self._is_finished()
        if self.finished:
            self._remove_leftovers()
        else:
            self._open()

    @property
    def packed(self) -> Path:
        """Where the zoo is put together before it gets its name."""
        return self.path / f"packed{PARTIAL}"

    def shard(self, shard: int) -> Path:
        return self.path / f"shard-{shard:06d}.npz"

    def stored(self) -> list[int]:
        """Numbers of the shards that are on the disk."""
        return [shard for shard in range(self.shards) if self.shard(shard).exists()]

    def check_open(self) -> None:
        """Raise ZooError when the lock was given up."""
        if self._lock is None:
            raise ZooError(f"This build of {self.out} was closed. Call ShardedBuild again to go on with it.")

    def close(self) -> None:
        """Give the lock up; harmless when repeated."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def remove(self) -> None:
        """Delete what the build has put here, once ``out`` has its name. Other files stay."""
        for path in [*sorted(self.path.glob("shard-*.npz")), *self.path.glob(f"*{PARTIAL}")]:
            path.unlink()
        for name in ("build.json", "lock"):
            (self.path / name).unlink(missing_ok=True)
        try:
            self.path.rmdir()
        except OSError:
            logger.warning("%s holds files that are not of the build and was kept", self.path)
        sync(self.path.parent)
        self.finished = True
        self.close()

    def abandon(self) -> None:
        """Delete the folder if no shard is stored: a build that came to nothing leaves nothing."""
        if self._lock is not None and not self.stored():
            self.remove()
            self.finished = False

    def _open(self) -> None:
        self._lock = BuildLock(self.path / "lock")
        try:
            if self._is_finished():  # by another process, before we got the lock
                self.remove()
                return
            for partial in self.path.glob(f"*{PARTIAL}"):
                partial.unlink()
            if self._stored_recipe() is not None:
                way_out = "choose another out, or delete that folder to give up its shards"
                self._check_same(self._stored_recipe(), self.path, way_out)
            elif self.stored():
                raise ZooError(
                    f"{self.path} has shards but no recipe (build.json), so they cannot be trusted. "
                    "Delete the folder."
                )
            else:
                text = dump_json("build recipe", self._recipe)
                replace_file(self.path / "build.json", lambda partial: _write_text(partial, text))
            logger.info("%s: %d of %d shards are stored", self.path, len(self.stored()), self.shards)
        except BaseException:
            self.close()
            raise

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
        found = build_recipe(tables.architectures, tables.numbers, tables.provenance, tables.dtype)
        found["shards"] = self._recipe["shards"]  # not content, so a zoo does not store them
        self._check_same(found, self.out, "choose another out, or move that file away")
        return True

    def _remove_leftovers(self) -> None:
        """Remove the folder if a kill came between naming ``out`` and removing the folder."""
        if not self.path.is_dir():
            return
        try:
            self._lock = BuildLock(self.path / "lock")
        except ZooError:
            return  # the builder that finished it is removing it right now
        if self._stored_recipe() in (None, self._recipe):
            self.remove()
        self.close()

    def _stored_recipe(self) -> dict[str, Any] | None:
        path = self.path / "build.json"
        return load_json("build recipe", path.read_text("utf-8")) if path.exists() else None

    def _check_same(self, found: Mapping[str, Any] | None, where: Path, way_out: str) -> None:
        lines = differences(self._recipe, found)
        if lines:
            more = f"\n  and {len(lines) - 8} more" if len(lines) > 8 else ""
            shown = "\n  ".join(lines[:8])
            raise ZooError(
                f"{where} belongs to another build. To build this one, {way_out}.\n  {shown}{more}"
            )


def build_recipe(
    architectures: Sequence[Architecture], numbers: np.ndarray, provenance: Mapping[str, Any], dtype: str
) -> dict[str, Any]:
    """The JSON object that identifies what a build makes; ``numbers`` are the architectures of its rows."""
    counts = np.bincount(numbers, minlength=len(architectures)).tolist()
    return {
        "architectures": {
            known.name: {"forward": known.forward.to_dict(), "rows": count, "spec": known.spec_text}
            for known, count in zip(architectures, counts, strict=True)
        },
        "dtype": dtype,
        "provenance": dict(provenance),
        "rows": len(numbers),
    }


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
