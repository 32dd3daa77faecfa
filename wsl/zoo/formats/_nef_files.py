"""HDF5 files of neural fields, read block by block and trusting nothing in them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._layout import Architecture
from wsl.zoo._store import Zoo
from wsl.zoo.formats._export import stored_networks
from wsl.zoo.formats._nef_fields import Layout, as_tensors, flatten, parse_layout, split_of_index
from wsl.zoo.formats._networks import CHUNK_BYTES, as_float32
from wsl.zoo.formats._protocol import Rows

_MOST_BYTES_A_BYTE = 1000  # how much a compressed dataset may grow


def _open(path: Path) -> Any:
    import h5py  # here, so that `import wsl` needs torch and numpy alone

    return h5py.File(path, "r")


def _dataset(file: Any, name: str, path: Path) -> Any:
    """A dataset that lies in this file and is not much larger than it."""
    import h5py

    if not isinstance(file.get(name, getlink=True), h5py.HardLink) or not isinstance(
        file[name], h5py.Dataset
    ):
        raise ZooError(f"{path} has no dataset {name}.")
    item = file[name]
    size = item.size * max(item.dtype.itemsize, 1)
    if item.id.get_create_plist().get_external_count() or item.is_virtual:
        raise ZooError(f"{path}: {name} lies in other files.")
    if size > _MOST_BYTES_A_BYTE * path.stat().st_size:
        raise ZooError(f"{path}: {name} claims {size} bytes, and the file has {path.stat().st_size}.")
    return item


def read_structure(path: Path) -> tuple[Layout, int | None]:
    """Names and shapes of the parameters in their order, and how many labels a network has."""
    try:
        with _open(path) as file:
            stored = _dataset(file, "param_config", path)
            if stored.shape != (1,):
                raise ZooError(f"{path}: param_config has the shape {stored.shape}, expected (1,).")
            text = stored[0]
            layout = parse_layout(text if isinstance(text, bytes) else str(text).encode(), path)
            if unknown := sorted(set(file) - {"params", "param_config", "labels"}):
                raise ZooError(f"{path} has the datasets {', '.join(unknown)[:200]}, which are unknown.")
            if "labels" not in file:
                return layout, None
            shape = _dataset(file, "labels", path).shape
            return layout, 1 if len(shape) == 1 else shape[1]
    except ZooError:
        raise
    except Exception as err:  # h5py raises nearly every type on damaged files
        raise ZooError(f"{path} is damaged ({type(err).__name__}: {err}). Copy it again.") from err


def read_chunks(
    path: Path,
    span: tuple[int, int],
    structure: tuple[Any, int | None],
    architecture: Architecture,
    dataset: str,
) -> Iterator[Rows]:
    """The networks of a file, some megabytes at a time; ``span`` are their numbers, as its name says."""
    start, stop = span
    layout, labels = structure
    if read_structure(path) != structure:
        raise ZooError(f"{path} has other parameters or labels than the first file.")
    width = sum(int(np.prod(shape)) for _, shape in layout)
    try:
        with _open(path) as file:
            params = _dataset(file, "params", path)
            if params.shape != (stop - start, width) or params.dtype.kind != "f":
                raise ZooError(
                    f"{path}: params is {params.dtype} {params.shape}, expected floats "
                    f"{(stop - start, width)}."
                )
            marks = None if labels is None else _dataset(file, "labels", path)
            if marks is not None and (marks.dtype.kind not in "iub" or marks.shape[0] != stop - start):
                raise ZooError(
                    f"{path}: labels is {marks.dtype} {marks.shape}, expected {stop - start} integers."
                )
            step = max(1, CHUNK_BYTES // (4 * width))
            for first in range(0, stop - start, step):
                block = as_float32(params[first : first + step], f"{path}: params")
                index = np.arange(start + first, start + first + len(block))
                columns: dict[str, np.ndarray] = {"index": index, "dataset": np.full(len(block), dataset)}
                if marks is not None:
                    found = marks[first : first + step].astype(np.int64).reshape(len(block), -1)
                    columns |= {
                        f"label_{i}" if labels != 1 else "label": found[:, i] for i in range(labels or 0)
                    }
                tensors = as_tensors(layout, block, architecture)
                yield Rows(architecture, tensors, columns, split_of_index(index, dataset))
    except ZooError:
        raise
    except Exception as err:  # h5py raises nearly every type on damaged files
        raise ZooError(f"{path} is damaged ({type(err).__name__}: {err}). Copy it again.") from err


def write_fields(path: Path, zoo: Zoo, layout: Layout, labels: np.ndarray | None) -> None:
    """One file with all networks of a zoo, flattened as ``layout`` says; ``labels`` are ``(n, k)``."""
    import h5py

    width = sum(int(np.prod(shape)) for _, shape in layout)
    with h5py.File(path, "w") as file:
        params = file.create_dataset("params", (len(zoo), width), "<f4")
        for network in stored_networks(zoo):
            params[network.row] = flatten(layout, network.weights)
        if labels is not None:
            file["labels"] = labels[:, 0] if labels.shape[1] == 1 else labels
        text = file.create_dataset("param_config", (1,), h5py.string_dtype())
        text[0] = json.dumps(layout)
