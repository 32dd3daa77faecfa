"""One shard of a build: its rows, their hashes and their metadata, in one npz file."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._files import replace_file
from wsl.zoo._layout import hash_rows


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


def shard_ranges(rows: int, shard_rows: int) -> list[range]:
    """The rows of each shard; the last may be shorter."""
    return [
        range(i * shard_rows, min(rows, (i + 1) * shard_rows)) for i in range(math.ceil(rows / shard_rows))
    ]
