"""Tensors side by side: the rows that a zoo stores."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wsl.zoo._columns import as_array
from wsl.zoo._errors import ZooError
from wsl.zoo._layout import STORED_DTYPES, Parameter, row_length


def as_matrix(
    parameters: tuple[Parameter, ...],
    weights: Mapping[str, Any] | np.ndarray,
    rows: int,
    dtype: str,
    flagged: np.ndarray | None = None,
) -> np.ndarray:
    """Lay tensors side by side as the parameter table says.

    Args:
        weights: tensor name -> ``(rows, *shape)`` tensor or array; or ``(rows, P)``, laid out already.
        dtype: ``float32`` or ``float16``.
        flagged: ``(rows,)`` bool, the rows that are known to have diverged; None if none is.

    Returns:
        ``(rows, P)`` in the stored type.

    Raises:
        ZooError: a tensor is missing, extra or of another shape, or not finite in ``dtype`` in a row that is
            not flagged.
    """
    if isinstance(weights, Mapping):
        matrix = _side_by_side(parameters, weights, rows, dtype)
    else:
        expected = (rows, row_length(parameters))
        if weights.shape != expected or weights.dtype.kind not in "fiu":
            raise ZooError(
                f"The rows are {weights.dtype} of shape {weights.shape}, expected floats {expected}."
            )
        with np.errstate(over="ignore"):
            matrix = np.ascontiguousarray(weights, dtype=STORED_DTYPES[dtype])
    _check_finite(parameters, matrix, dtype, flagged)
    return matrix


def _side_by_side(
    parameters: tuple[Parameter, ...], weights: Mapping[str, Any], rows: int, dtype: str
) -> np.ndarray:
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
    return matrix


def _check_finite(
    parameters: tuple[Parameter, ...], matrix: np.ndarray, dtype: str, flagged: np.ndarray | None
) -> None:
    bad = ~np.isfinite(matrix).all(axis=1)
    if flagged is not None:
        bad &= ~flagged
    if not bad.any():
        return
    row = int(np.flatnonzero(bad)[0])
    column = int(np.flatnonzero(~np.isfinite(matrix[row]))[0])
    name = next(each.name for each in parameters if each.offset <= column < each.offset + each.size)
    raise ZooError(
        f"{name} of row {row} of these {len(matrix)} has values that are not finite in {dtype} "
        f"({bad.sum()} such rows). The network diverged, or {dtype} is too narrow for it: leave it out, "
        "train it again, or keep it and say so by a metadata column `diverged`: 1 for it, 0 for others."
    )
