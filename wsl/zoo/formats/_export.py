"""What the writers of foreign formats share: rows in order, checked columns, files of torch."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from wsl.zoo._errors import ZooError
from wsl.zoo._layout import Architecture
from wsl.zoo._store import Zoo
from wsl.zoo.formats._networks import CHUNK_BYTES

_KINDS = {"int": "i", "float": "f", "text": "U"}


class StoredNetwork(NamedTuple):
    """One row of a zoo: its number, its architecture and its tensors."""

    row: int
    architecture: Architecture
    weights: dict[str, np.ndarray]


def stored_networks(zoo: Zoo) -> Iterator[StoredNetwork]:
    """Every row of a zoo in order, read some megabytes at a time."""
    architectures = zoo.tables.architectures
    numbers = {architecture.name: architecture for architecture in architectures}
    widest = max(sum(parameter.size for parameter in one.parameters) for one in architectures)
    step = max(1, min(4096, CHUNK_BYTES // (4 * widest)))
    for start in range(0, len(zoo), step):
        found: dict[int, StoredNetwork] = {}
        for located in zoo.locate(slice(start, start + step)):
            tensors = {name: t.numpy() for name, t in located.architecture.weights(located.rows).items()}
            architecture = numbers[located.architecture.name]
            for place, position in enumerate(located.positions.tolist()):
                weights = {name: array[place] for name, array in tensors.items()}
                found[position] = StoredNetwork(start + position, architecture, weights)
        yield from (found[position] for position in sorted(found))


def split_of_rows(zoo: Zoo) -> np.ndarray:
    """``(rows,)`` text: the split of each row; empty for one that is in none."""
    names = np.full(len(zoo), "", dtype=f"U{max([1, *map(len, zoo.splits)])}")
    for name, split in zoo.splits.items():
        names[split.indices] = name
    return names


class Columns:
    """A zoo's metadata for a format with columns of its own.

    Args:
        zoo: what is exported.
        kinds: the columns that the format keeps and their kind: ``int``, ``float`` or ``text``.
        defaults: values for columns that the zoo may lack.

    Raises:
        ZooError: a column is missing or of another kind.
    """

    def __init__(self, zoo: Zoo, kinds: Mapping[str, str], defaults: Mapping[str, Any] | None = None) -> None:
        self.values: dict[str, np.ndarray] = {}
        for name, kind in kinds.items():
            if name not in zoo.metadata and name in (defaults or {}):
                self.values[name] = np.full(len(zoo), (defaults or {})[name])
                continue
            if name not in zoo.metadata:
                raise ZooError(
                    f"this format keeps the metadata column {name}, and {zoo.path} has only "
                    f"{', '.join(zoo.metadata)}. Formats that hold any zoo are state_dicts and safetensors."
                )
            if zoo.metadata[name].dtype.kind != _KINDS[kind]:
                raise ZooError(
                    f"the metadata column {name} of {zoo.path} holds {zoo.metadata[name].dtype}, and this "
                    f"format keeps {kind}. Formats that hold any zoo are state_dicts and safetensors."
                )
            self.values[name] = zoo.metadata[name]
        left = [name for name in zoo.metadata if name not in kinds]
        self.notes = [f"metadata columns without a place in this format: {', '.join(left)}."] if left else []

    def row(self, row: int) -> dict[str, Any]:
        """The values of one row, as Python's own types."""
        return {name: values[row].item() for name, values in self.values.items()}


def one_architecture(zoo: Zoo) -> Architecture:
    """The only architecture of a zoo; raises ZooError if there are several."""
    architectures = zoo.tables.architectures
    if len(architectures) != 1:
        raise ZooError(
            f"{zoo.path} holds {len(architectures)} architectures, and this format holds one. "
            "Export each by itself, or as state_dicts."
        )
    return architectures[0]


def check_forward(architecture: Architecture, factory: str, **expected: Any) -> None:
    """Raise ZooError unless networks run as a format's networks always do.

    Args:
        expected: fields of the forward definition, or arguments of its class.
    """
    forward = architecture.forward
    found: dict[str, Any] = {"factory": forward.factory}
    wanted: dict[str, Any] = {"factory": f"wsl.models:{factory}"} | expected
    for name in expected:
        found[name] = getattr(forward, name) if hasattr(forward, name) else forward.arguments.get(name)
    if found != wanted:
        different = [name for name in wanted if found[name] != wanted[name]]
        raise ZooError(
            "networks of this format run with "
            + ", ".join(f"{name}={wanted[name]!r}" for name in different)
            + ", and those of the zoo with "
            + ", ".join(f"{name}={found[name]!r}" for name in different)
            + ". Formats that hold any zoo are state_dicts and safetensors."
        )


def write_torch_file(path: Path, tensors: Mapping[str, np.ndarray], wrap: Any = None, **extras: Any) -> None:
    """Save tensors as a state dict.

    Args:
        wrap: key under which the state dict lies in a dictionary with the extras; by default the extras are
            entries of the state dict itself.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    state: dict[str, Any] = OrderedDict(
        (name, torch.from_numpy(np.array(array))) for name, array in tensors.items()
    )
    torch.save(state | extras if wrap is None else {**extras, wrap: state}, path)
