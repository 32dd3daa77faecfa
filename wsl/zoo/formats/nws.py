"""The neural weight space dataset (NWS): snapshots of CNNs as raw numbers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._store import Zoo
from wsl.zoo.formats._architectures import fixed
from wsl.zoo.formats._export import Columns, split_of_rows, stored_networks
from wsl.zoo.formats._files import entries, find_folder, read_bytes
from wsl.zoo.formats._networks import Network, as_float32, batched
from wsl.zoo.formats._protocol import ImportOptions, Source, ZooFormat
from wsl.zoo.formats._table import read_table, write_table

_INDEX = re.compile(r"(?P<name>\w{1,60})_(?P<split>train|test)\.csv")
_SNAPSHOTS = 20
_PROPERTIES: dict[str, type] = {
    "dataset": str, "lrate": float, "batch_size": int, "batch_norm": str, "augmentation": str,
    "optimizer": int, "activation": int, "initialization": int, "filter_size": int, "depth_conv": int,
    "depth_fc": int, "width_conv": int, "width_fc": int,
}  # fmt: skip
_ERRORS = ("train_error", "valid_error", "test_error", "valid_error_smoothed")
_STATISTICS = ("evaluations", "steps", "epochs", "minutes")
_KINDS: dict[str, type] = {
    "model": str, "snapshot": int, "step": float, **_PROPERTIES,
    **dict.fromkeys([*_ERRORS, *_STATISTICS], float),
}  # fmt: skip
_MOST_WEIGHTS = 1 << 28


class NwsFormat(ZooFormat):
    """``<name>_{train,test}.csv`` and ``<id>/{weights/001.bin … 020.bin, error.bin, stat.bin}``.

    Snapshots are raw float64; the table says how many belong to convolutions (they come first, as the tensor
    ``conv``) and how many to fully connected layers (``fc``). Their layers are not cut apart: the format does
    not say how. ``error.bin`` has a line for each evaluation: step and errors in percent of training,
    validation, test, and of validation smoothed; snapshot ``k`` of 20 is that at ``round(linspace(0, n - 1,
    20))[k]``. Other lines of it are not kept.

    Source: Eilertsen et al. 2020 (arXiv:2002.05688).
    """

    name = "nws"
    summary = "snapshots of CNNs of Eilertsen et al. (<id>/weights/001.bin and an index as CSV)"

    def read(self, source: Path, options: ImportOptions) -> Source:
        folder = find_folder(
            source, "a folder with an index *_train.csv or *_test.csv", lambda f: bool(_indices(f))
        )
        records: list[tuple[Path, str, dict[str, Any]]] = []
        for path, split in _indices(folder):
            records += [(found, split, record) for found, record in _records(path, folder)]
        notes = ["of error.bin the lines of the snapshots are kept, not those between them."]

        def networks() -> Iterator[Network]:
            for place, split, record in records:
                sizes = {name: record[f"weightn_{name}"] for name in ("conv", "fc")}
                architecture = fixed("cnn", {name: (size,) for name, size in sizes.items() if size}, _REASON)
                errors, statistics = _errors(place), _numbers(place / "stat.bin", len(_STATISTICS))
                if int(statistics[0]) != len(errors):
                    raise ZooError(
                        f"{place}: error.bin has {len(errors)} lines, and stat.bin says {statistics[0]}."
                    )
                lines = np.round(np.linspace(0, len(errors) - 1, _SNAPSHOTS)).astype(int)
                fixed_columns = {"model": place.name, **{name: record[name] for name in _PROPERTIES}}
                fixed_columns |= dict(zip(_STATISTICS, statistics.tolist(), strict=True))
                for snapshot in range(1, _SNAPSHOTS + 1):
                    path = place / "weights" / f"{snapshot:03d}.bin"
                    values = as_float32(_numbers(path, sum(sizes.values())), str(path), notes)
                    pieces = {"conv": values[: sizes["conv"]], "fc": values[sizes["conv"] :]}
                    line = errors[lines[snapshot - 1]].tolist()
                    columns = fixed_columns | {"snapshot": snapshot, "step": line[0]}
                    columns |= dict(zip(_ERRORS, line[1:], strict=True))
                    yield Network(architecture, {n: v for n, v in pieces.items() if v.size}, columns, split)

        recipes = {split: ({"method": "imported", "column": "model"}, 0) for split in ("train", "test")}
        provenance = {"format": self.name, "models": len(records)}
        return Source(batched(networks(), _KINDS), provenance, recipes, notes)

    def write(self, zoo: Zoo, destination: Path) -> list[str]:
        titles = {int: "int", float: "float", str: "text"}
        columns = Columns(zoo, {name: titles[kind] for name, kind in _KINDS.items()})
        split_of = split_of_rows(zoo)
        pending: dict[str, list[dict[str, Any]]] = {}
        index: dict[str, list[list[Any]]] = {"train": [], "test": []}
        for network in stored_networks(zoo):
            row, split = columns.row(network.row), str(split_of[network.row])
            if set(network.weights) - {"conv", "fc"} or split not in index:
                raise ZooError(
                    f"row {network.row} has the tensors {sorted(network.weights)[:6]} and the split "
                    f"{split!r}: this format has conv and fc, and the splits train and test."
                )
            model = row["model"]
            if not re.fullmatch(r"\w{1,60}", model):
                raise ZooError(f"row {network.row} has the model {model[:60]!r}, which names no folder.")
            rows = pending.setdefault(model, [])
            sizes = [network.weights[name].size if name in network.weights else 0 for name in ("conv", "fc")]
            if not rows:
                place = destination / model / "weights"
                if place.exists():
                    raise ZooError(f"row {network.row}: model {model} has more than {_SNAPSHOTS} snapshots.")
                place.mkdir(parents=True)
                index[split].append([*(row[name] for name in _PROPERTIES), f"nws/{model}", *sizes])
            rows.append(
                {name: row[name] for name in ("snapshot", "step", *_ERRORS, *_STATISTICS)} | {"sizes": sizes}
            )
            values = np.concatenate(
                [network.weights[n].reshape(-1) for n in ("conv", "fc") if n in network.weights]
            )
            path = destination / model / "weights" / f"{row['snapshot']:03d}.bin"
            path.write_bytes(values.astype("<f8").tobytes())
            if len(rows) == _SNAPSHOTS:
                _write_records(destination / model, pending.pop(model))
        for model, rows in pending.items():
            _write_records(destination / model, rows)
        kinds = {**_PROPERTIES, "path": str, "weightn_conv": int, "weightn_fc": int}
        for split, lines in index.items():
            if lines:
                write_table(destination / f"nws_{split}.csv", kinds, lines, typed=False)
        return columns.notes


_REASON = "the order of layers in it is not stored"


def _indices(folder: Path) -> list[tuple[Path, str]]:
    found = [(entry, match["split"]) for entry in entries(folder) if (match := _INDEX.fullmatch(entry.name))]
    names = {entry.name.rpartition("_")[0] for entry, _ in found}
    if len(names) > 1:
        raise ZooError(
            f"{folder} has the indices of several sets, {', '.join(sorted(names))}: separate them."
        )
    return sorted(found, key=lambda pair: pair[1] != "train")


def _records(path: Path, folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    kinds, records = read_table(path)
    expected = {**_PROPERTIES, "path": str, "weightn_conv": int, "weightn_fc": int}
    if set(kinds) != set(expected):
        raise ZooError(f"{path} has the columns {', '.join(kinds)[:300]}, expected {', '.join(expected)}.")
    found = []
    for number, record in enumerate(records, 1):
        where = f"{path}: row {number}"
        for name, kind in expected.items():
            if kind is float:
                record[name] = float(record[name]) if isinstance(record[name], int | float) else None
            if not isinstance(record[name], kind) and kind is not str:
                raise ZooError(f"{where} has no {'integer' if kind is int else 'number'} as {name}.")
            record[name] = str(record[name]) if kind is str else record[name]
        name = record["path"].rstrip("/").rpartition("/")[2]
        place = folder / name
        if not re.fullmatch(r"\w{1,60}", name) or not place.is_dir():
            raise ZooError(
                f"{where} names {record['path'][:200]!r}, and {folder} has no folder {name[:60]!r}."
            )
        if not all(0 <= record[f"weightn_{part}"] < _MOST_WEIGHTS for part in ("conv", "fc")):
            raise ZooError(f"{where} has impossible numbers of weights.")
        if record["weightn_conv"] + record["weightn_fc"] < 1:
            raise ZooError(f"{where} has a network without weights.")
        found.append((place, record))
    return found


def _numbers(path: Path, count: int | None = None) -> np.ndarray:
    data = read_bytes(path, 8 * _MOST_WEIGHTS)
    if len(data) % 8 or (count is not None and len(data) != 8 * count):
        raise ZooError(
            f"{path} has {len(data)} bytes, expected {'whole' if count is None else count} float64 values."
        )
    return np.frombuffer(data, "<f8")


def _errors(place: Path) -> np.ndarray:
    values = _numbers(place / "error.bin")
    if len(values) % 5 or not len(values):
        raise ZooError(f"{place / 'error.bin'} has {len(values)} values, expected lines of 5.")
    return values.reshape(-1, 5)


def _write_records(place: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """``error.bin`` with the lines of the snapshots (others are NaN), and ``stat.bin``."""
    statistics = {tuple(row[name] for name in _STATISTICS) for row in rows}
    same = len(statistics) == 1 and all(row["sizes"] == rows[0]["sizes"] for row in rows)
    if [row["snapshot"] for row in rows] != list(range(1, _SNAPSHOTS + 1)) or not same:
        raise ZooError(
            f"model {place.name} lacks the snapshots 1 to {_SNAPSHOTS} in a row, of one size and statistics."
        )
    numbers = np.array(statistics.pop())
    if not numbers[0] >= 1 or numbers[0] != int(numbers[0]) or numbers[0] > 10**6:
        raise ZooError(f"model {place.name} has {numbers[0]} evaluations.")
    errors = np.full((int(numbers[0]), 5), np.nan)
    for row, line in zip(
        rows, np.round(np.linspace(0, len(errors) - 1, _SNAPSHOTS)).astype(int), strict=True
    ):
        errors[line] = [row[name] for name in ("step", *_ERRORS)]
    (place / "error.bin").write_bytes(errors.astype("<f8").tobytes())
    (place / "stat.bin").write_bytes(numbers.astype("<f8").tobytes())
