"""One shard of a build: its rows, their hashes and their metadata, in one npz file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._files import replace_file
from wsl.zoo._layout import hash_rows


class Shard(NamedTuple):
    """Consecutive rows of one architecture that a build makes and stores together."""

    rows: int
    architecture: int = 0
    """Its place among the build's architectures."""


def even_shards(rows: int, shard_rows: int, architecture: int = 0) -> list[Shard]:
    """Shards of ``shard_rows`` rows, the last perhaps smaller; ZooError if either number is below 1."""
    if rows < 1 or shard_rows < 1:
        raise ZooError(f"rows={rows} and shard_rows={shard_rows} must both be at least 1.")
    starts = range(0, rows, shard_rows)
    return [Shard(min(shard_rows, rows - start), architecture) for start in starts]


def write_shard(path: Path, matrix: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
    """Store a shard crash-safely; raises ZooError when the disk refuses."""
    members: dict[str, Any] = {f"column/{name}": array for name, array in columns.items()}
    members |= {"weights": matrix, "hashes": hash_rows(matrix)}

    def write(partial: Path) -> None:
        with open(partial, "wb") as file:
            np.savez(file, allow_pickle=False, **members)

    replace_file(path, write)


def read_shard(path: Path, member: str) -> np.ndarray:
    """``weights``, ``hashes`` or ``column/<name>`` of a shard; raises ZooError when it does not read back."""
    return _load(path, [member])[member]


def read_shard_tables(path: Path) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Columns and hashes of a stored shard, without its weights."""
    members = _load(path, None)
    hashes = members.pop("hashes")
    return {name.removeprefix("column/"): array for name, array in members.items()}, hashes


def _load(path: Path, wanted: list[str] | None) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in wanted or file.files if wanted or name != "weights"}
    except Exception as err:  # zipfile and numpy raise many types on damaged files
        raise ZooError(
            f"The shard {path} does not read back ({type(err).__name__}: {err}). "
            "Delete that file and run the same build again: only this shard is made anew."
        ) from err
