"""The variables of the Small CNN Zoo: TensorFlow's names, places, shapes and orders, and ours."""

import csv
import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo.formats._table import csv_rows, typed_number

_VARIABLE = re.compile(
    r"sequential(?:_\d+)?/(?P<layer>conv2d(?:_(?P<number>\d{1,3}))?|dense)/(?P<kind>bias|kernel):0"
)
_HEADER = ["varname", "start_idx", "end_idx", "size", "shape"]


class Variable(NamedTuple):
    """A variable of TensorFlow: our name, theirs, its place in a row, and the shape that it has there."""

    name: str  # of ours
    theirs: str
    start: int
    stop: int
    shape: tuple[int, ...]  # theirs


def read_layout(path: Path) -> list[Variable]:
    """The variables of ``layout.csv``, which tile a row; raises ZooError unless they chain as layers do."""
    records = list(csv_rows(path, 1000))
    if not records or records[0] != _HEADER:
        raise ZooError(f"{path} has the header {records[:1]}, expected {','.join(_HEADER)}.")
    variables: list[Variable] = []
    for number, record in enumerate(records[1:], 1):
        where = f"{path}: row {number}"
        if len(record) != len(_HEADER):
            raise ZooError(f"{where} has {len(record)} cells, expected {len(_HEADER)}.")
        match = _VARIABLE.fullmatch(record[0])
        if match is None:
            raise ZooError(f"{where}: {record[0][:60]!r} is no variable of the Small CNN Zoo.")
        start, stop, size = (typed_number(cell, int, where) for cell in record[1:4])
        shape = tuple(int(n) for n in re.findall(r"\d{1,6}", record[4]))
        expected = variables[-1].stop if variables else 0
        if start != expected or stop - start != size or int(np.prod(shape, dtype=object)) != size or size < 1:
            raise ZooError(f"{where}: {record[0]} lies at {start} to {stop} with the shape {record[4][:40]}.")
        layer = "dense" if match["layer"] == "dense" else f"convs.{match['number'] or 0}"
        kind = "bias" if match["kind"] == "bias" else "weight"
        if len(shape) != {"bias": 1, "weight": 2 if layer == "dense" else 4}[kind]:
            raise ZooError(f"{where}: {record[0]} has the shape {record[4][:40]}.")
        variables.append(Variable(f"{layer}.{kind}", record[0], start, stop, shape))
    _check_chain(variables, path)
    return variables


def _check_chain(variables: list[Variable], path: Path) -> None:
    """Raise ZooError unless the variables are those of one chain of convolutions and a dense layer."""
    shapes = {variable.name: variable.shape for variable in variables}
    layers = [f"convs.{i}" for i in range(len(variables) // 2 - 1)] + ["dense"]
    if not variables or set(shapes) != {f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias")}:
        raise ZooError(f"{path} has the variables {sorted(shapes)}, expected convolutions and a dense layer.")
    kernels = [shapes[f"{layer}.weight"] for layer in layers]
    chained = all(a[-1] == b[-2] for a, b in pairwise(kernels))
    biased = all(shapes[f"{layer}.bias"] == kernels[i][-1:] for i, layer in enumerate(layers))
    if not chained or not biased or any(kernel[:2] != (3, 3) for kernel in kernels[:-1]):
        raise ZooError(f"{path}: the shapes {kernels} do not follow one another as layers do.")


def as_tensors(variables: list[Variable], block: np.ndarray) -> dict[str, np.ndarray]:
    """Columns of a block as tensors of torch: HWIO kernels become OIHW, dense ones (out, in)."""
    order = {1: (0, 1), 2: (0, 2, 1), 4: (0, 4, 3, 1, 2)}
    found = {
        v.name: block[:, v.start : v.stop].reshape(-1, *v.shape).transpose(order[len(v.shape)])
        for v in variables
    }
    return found


def variables_of(weights: dict[str, np.ndarray]) -> list[Variable]:
    """The layout of a network: bias before kernel."""
    variables: list[Variable] = []
    for name in [f"convs.{i}" for i in range(len(weights) // 2 - 1)] + ["dense"]:
        number = name.removeprefix("convs.")
        layer = "dense" if name == "dense" else "conv2d" if number == "0" else f"conv2d_{number}"
        kernel = weights[f"{name}.weight"]
        theirs = kernel.shape[::-1] if kernel.ndim == 2 else tuple(kernel.shape[i] for i in (2, 3, 1, 0))
        for kind, shape in (("bias", weights[f"{name}.bias"].shape), ("kernel", theirs)):
            start = variables[-1].stop if variables else 0
            ours = f"{name}.{'weight' if kind == 'kernel' else kind}"
            stop = start + int(np.prod(shape))
            variables.append(Variable(ours, f"sequential/{layer}/{kind}:0", start, stop, shape))
    return variables


def flatten(variables: list[Variable], weights: dict[str, np.ndarray]) -> np.ndarray:
    """A network as a row of ``weights.npy``; raises ZooError for shapes of another layout."""
    order = {1: (0,), 2: (1, 0), 4: (2, 3, 1, 0)}
    pieces = [weights[v.name].transpose(order[len(v.shape)]) for v in variables]
    if [piece.shape for piece in pieces] != [v.shape for v in variables]:
        raise ZooError("the networks have layers of several sizes, and this format holds one.")
    return np.concatenate([piece.reshape(-1) for piece in pieces]).astype("<f4")


def write_layout(path: Path, variables: list[Variable]) -> None:
    """The inverse of :func:`read_layout`."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(_HEADER)
        for v in variables:
            writer.writerow([v.theirs, v.start, v.stop, v.stop - v.start, str(v.shape)])
