"""One shard of a build: its rows, their hashes and their metadata, in one npz file."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wsl.spec import WeightSpec
from wsl.zoo._columns import as_array
from wsl.zoo._errors import ZooError
from wsl.zoo._files import replace_file
from wsl.zoo._layout import STORED_DTYPES, hash_rows, parameter_table, row_length


def as_matrix(spec: WeightSpec, weights: Mapping[str, Any], rows: int, dtype: str) -> np.ndarray:
    """Lay tensors side by side as the parameter table says.

    Args:
        weights: tensor name -> ``(rows, *shape)`` tensor or array.
        dtype: ``float32`` or ``float16``.

    Returns:
        ``(rows, P)`` in the stored type.

    Raises:
        ZooError: a tensor is missing, extra or of another shape, or not finite in ``dtype``.
    """
    parameters = parameter_table(spec)
    names = [parameter.name for parameter in parameters]
    if set(weights) != set(names):
        missing, extra = sorted(set(names) - set(weights)), sorted(set(weights) - set(names))
        raise ZooError(
            f"The weights do not match the spec: missing {missing}, unknown {extra}. "
            "Trace the module that was trained."
        )
    matrix = np.empty((rows, row_length(parameters)), dtype=STORED_DTYPES[dtype])
    for parameter in parameters:
        values = as_array(weights[parameter.name])
        expected = (rows, *parameter.shape)
        if values.shape != expected:
            raise ZooError(
                f"{parameter.name} has shape {values.shape}, expected {expected}: "
                f"{rows} rows of {parameter.shape}."
            )
        with np.errstate(over="ignore"):
            place = matrix[:, parameter.offset : parameter.offset + parameter.size]
            place[...] = values.reshape(rows, parameter.size)
        bad = np.flatnonzero(~np.isfinite(place).all(axis=1))
        if len(bad):
            raise ZooError(
                f"{parameter.name} of row {bad[0]} of this shard has values that are not finite in {dtype} "
                f"({len(bad)} of {rows} rows). The network diverged, or {dtype} is too narrow for it: "
                "leave it out or train it again."
            )
    return matrix


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
