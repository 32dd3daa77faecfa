"""The Small CNN Zoo: one matrix of TensorFlow weights with a table of metrics."""

import csv
import gzip
from array import array
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._layout import Architecture
from wsl.zoo._store import Zoo
from wsl.zoo.formats._architectures import traced
from wsl.zoo.formats._cnnzoo_layout import (
    Variable,
    as_tensors,
    flatten,
    read_layout,
    variables_of,
    write_layout,
)
from wsl.zoo.formats._cnnzoo_splits import RECIPE, read_splits, write_splits
from wsl.zoo.formats._export import Columns, check_forward, stored_networks
from wsl.zoo.formats._files import find_folder
from wsl.zoo.formats._npy import NpyMatrix, write_header
from wsl.zoo.formats._protocol import ImportOptions, Rows, Source, ZooFormat
from wsl.zoo.formats._table import csv_rows, parse_cell, typed_number

_METRICS: dict[str, type] = {
    "config.activation": str, "config.b_init": str, "config.dataset": str, "config.dnn_architecture": str,
    "config.dropout": float, "config.epochs": int, "config.epochs_between_checkpoints": int,
    "config.init_std": float, "config.l2reg": float, "config.learning_rate": float, "config.num_layers": int,
    "config.num_units": int, "config.optimizer": str, "config.random_seed": int,
    "config.train_fraction": float, "config.w_init": str, "modeldir": str, "step": int,
    "test_accuracy": float, "test_loss": float, "train_accuracy": float, "train_loss": float,
}  # fmt: skip
_FILES = ("weights.npy", "layout.csv", "metrics.csv.gz")


class CnnZooFormat(ZooFormat):
    """``weights.npy`` (rows, 4970), ``layout.csv``, ``metrics.csv.gz`` and, perhaps, NFN's ``*_split.csv``.

    In each layer the bias stands before the kernel; kernels of convolutions are HWIO, dense ones (in, out).
    Columns lose the prefix ``config.``; ``model`` numbers the folders of ``modeldir``. Networks with ReLU and
    with tanh are two architectures. Splits hold the rows of the last epoch, as NFN uses them.

    Source: Unterthiner et al. 2020 (arXiv:2002.11448); splits: Zhou et al. 2023 (arXiv:2302.14040).
    """

    name = "cnnzoo"
    summary = "the Small CNN Zoo (weights.npy, layout.csv, metrics.csv.gz)"

    def read(self, source: Path, options: ImportOptions) -> Source:
        folder = find_folder(
            source, f"a folder with {', '.join(_FILES)}", lambda f: (f / _FILES[0]).is_file()
        )
        variables = read_layout(folder / "layout.csv")
        matrix = NpyMatrix(folder / "weights.npy", variables[-1].stop)
        columns = _metrics(folder / "metrics.csv.gz", matrix.rows)
        splits = read_splits(folder, columns["step"])
        split_of = np.full(matrix.rows, "", dtype="U5")
        for name, rows in splits.items():
            split_of[rows] = name

        def chunks() -> Iterator[Rows]:
            activations = columns["activation"].tolist()
            for start, values in matrix.blocks():
                numbers = range(start, start + len(values))
                for activation, group in groupby(numbers, key=activations.__getitem__):
                    rows = list(group)
                    part = values[rows[0] - start : rows[-1] + 1 - start]
                    yield Rows(
                        _architecture(variables, activation),
                        as_tensors(variables, part),
                        {name: column[rows[0] : rows[-1] + 1] for name, column in columns.items()},
                        split_of[rows[0] : rows[-1] + 1],
                    )

        provenance = {"format": self.name, "networks": matrix.rows}
        notes = [] if splits else ["there is no file *_split.csv, so the zoo has no splits."]
        return Source(chunks(), provenance, dict.fromkeys(splits, (RECIPE, 0)), notes)

    def write(self, zoo: Zoo, destination: Path) -> list[str]:
        kinds = {name.removeprefix("config."): kind for name, kind in _METRICS.items()}
        titles = {int: "int", float: "float", str: "text"}
        columns = Columns(zoo, {name: titles[kind] for name, kind in kinds.items()} | {"model": "int"})
        if not np.array_equal(_models(columns.values["modeldir"]), columns.values["model"]):
            raise ZooError(
                "the column model does not number the folders of modeldir, as this format reads it."
            )
        variables = None
        destination.mkdir(parents=True, exist_ok=True)
        with (
            open(destination / "weights.npy", "wb") as weights,
            gzip.open(destination / "metrics.csv.gz", "wt", encoding="utf-8", newline="") as text,
        ):
            metrics = csv.writer(text)
            metrics.writerow(_METRICS)
            for network in stored_networks(zoo):
                row = columns.row(network.row)
                check_forward(
                    network.architecture, "SmallCNN", activation=row["activation"], kernel_size=3, stride=2
                )
                if variables is None:
                    variables = variables_of(network.weights)
                    write_header(weights, (len(zoo), variables[-1].stop))
                weights.write(flatten(variables, network.weights).tobytes())
                metrics.writerow([repr(row[n]) if kinds[n] is float else row[n] for n in kinds])
        assert variables is not None
        write_layout(destination / "layout.csv", variables)
        return columns.notes + write_splits(zoo, columns.values["step"], destination / "cnnzoo_split.csv")


def _metrics(path: Path, rows: int) -> dict[str, np.ndarray]:
    records = csv_rows(path, rows + 1)
    header = next(records, [])
    if header != list(_METRICS):
        raise ZooError(f"{path} has the columns {', '.join(header)[:300]}, expected {', '.join(_METRICS)}.")
    texts: dict[str, str] = {}
    kinds = list(_METRICS.values())
    values: list[Any] = [[] if kind is str else array("q" if kind is int else "d") for kind in kinds]
    number = 0
    for number, record in enumerate(records, 1):
        if len(record) != len(header):
            raise ZooError(f"{path}: row {number} has {len(record)} cells, and the header {len(header)}.")
        try:
            for column, cell, kind in zip(values, record, kinds, strict=True):
                column.append(texts.setdefault(cell, cell) if kind is str else parse_cell(cell, kind))
        except ValueError:
            for cell, (name, kind) in zip(record, _METRICS.items(), strict=True):
                typed_number(cell, kind, f"{path}: {name} of row {number}")
    if number != rows:
        raise ZooError(f"{path} has {number} rows, and weights.npy has {rows}.")
    # Text stays in lists of shared strings: arrays of text are as wide as the longest everywhere.
    columns = {
        name.removeprefix("config."): np.array(column, dtype=object if kind is str else None)
        for column, (name, kind) in zip(values, _METRICS.items(), strict=True)
    }
    return columns | {"model": _models(columns["modeldir"])}


def _models(modeldirs: np.ndarray) -> np.ndarray:
    """``(rows,)`` int64: the folders of ``modeldir``, numbered as they come."""
    numbers: dict[str, int] = {}
    folders = (text.rstrip("/").rpartition("/")[0] or text for text in modeldirs)
    return np.array([numbers.setdefault(folder, len(numbers)) for folder in folders])


def _architecture(variables: list[Variable], activation: str) -> Architecture:
    shapes = {variable.name: variable.shape for variable in variables}
    convs = [shapes[f"convs.{i}.weight"] for i in range(len(shapes) // 2 - 1)]
    arguments = {
        "in_channels": convs[0][2],
        "channels": [shape[3] for shape in convs],
        "classes": shapes["dense.weight"][1],
        "activation": activation,
        "kernel_size": 3,
        "stride": 2,
    }
    forward = ForwardDefinition("wsl.models:SmallCNN", arguments)
    side = 2 ** (len(convs) + 1) - 1  # one pixel is left after the last convolution
    return traced(f"cnn-{activation}", forward, (2, convs[0][2], side, side))
