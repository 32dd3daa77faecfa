"""NFN's splits of the Small CNN Zoo: an order of the rows, of which those of the last epoch count."""

import random
from pathlib import Path

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._store import Zoo
from wsl.zoo.formats._export import split_of_rows
from wsl.zoo.formats._table import csv_rows, typed_number

_LAST_EPOCH = 86
RECIPE = {
    "method": "rows at epoch 86 in the order of NFN's file: the second half is test; of the first half, "
    "shuffled, 80 % is train",
    "column": "model",
}


def _nfn_parts(final: int) -> dict[str, list[int]]:
    """Places among the rows of the last epoch, in the order of the file, for each split."""
    half = final // 2
    order = list(range(half))
    random.Random(0).shuffle(order)
    return {
        "train": order[: int(0.8 * half)],
        "val": order[int(0.8 * half) :],
        "test": list(range(half, final)),
    }


def read_splits(folder: Path, step: np.ndarray) -> dict[str, np.ndarray]:
    """Split name -> rows, from the file ``*_split.csv`` of a folder; empty without one; raises ZooError."""
    files = sorted(folder.glob("*_split.csv"))
    if not files:
        return {}
    if len(files) > 1:
        raise ZooError(f"{folder} has {len(files)} files of splits: {', '.join(f.name for f in files[:5])}.")
    cells = [
        typed_number("".join(record), int, f"{files[0]}") for record in csv_rows(files[0], len(step) + 1)
    ]
    order = np.array(cells)
    if len(order) == len(step) + 1 and order[0] == 0:
        order = order[1:]  # a stray first row, the header that some writer gave to a nameless column
    if not np.array_equal(np.sort(order), np.arange(len(step))):
        raise ZooError(f"{files[0]} does not name each of the {len(step)} rows once.")
    final = order[step[order] == _LAST_EPOCH]
    return {name: final[places] for name, places in _nfn_parts(len(final)).items() if places}


def write_splits(zoo: Zoo, step: np.ndarray, path: Path) -> list[str]:
    """A file that :func:`read_splits` reads back, or a sentence that says why there can be none."""
    if not zoo.splits:
        return []
    final = np.flatnonzero(step == _LAST_EPOCH)
    parts = _nfn_parts(len(final))
    ours = split_of_rows(zoo)
    order = np.empty(len(final), dtype=np.int64)
    for name, places in parts.items():
        rows = np.flatnonzero(ours == name)
        if len(rows) != len(places) or (step[rows] != _LAST_EPOCH).any():
            return [
                f"splits: this format has train, val and test of rows at step {_LAST_EPOCH} only, of "
                f"{', '.join(str(len(p)) for p in parts.values())} rows here."
            ]
        order[places] = rows
    others = np.flatnonzero(step != _LAST_EPOCH)
    path.write_text("".join(f"{row}\n" for row in [0, *order.tolist(), *others.tolist()]), encoding="utf-8")
    return []
