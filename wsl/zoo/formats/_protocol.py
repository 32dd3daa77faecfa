"""What every foreign format can do: give a zoo's networks in chunks, and take them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from wsl.spec import WeightSpec
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._layout import Architecture
from wsl.zoo._store import Zoo


@dataclass(frozen=True, eq=False)
class Rows:
    """Some networks of one architecture.

    Args:
        architecture: of all of them.
        weights: tensor name -> ``(n, *shape)`` float32, the names of the architecture's spec.
        columns: metadata column -> ``(n,)`` integers, floats or text; the same columns in all chunks.
        splits: ``(n,)`` text, the split of each network; empty for one that is in none.
    """

    architecture: Architecture
    weights: Mapping[str, np.ndarray]
    columns: Mapping[str, np.ndarray]
    splits: np.ndarray

    def __len__(self) -> int:
        return len(self.splits)


@dataclass(frozen=True, eq=False)
class Source:
    """A foreign zoo, opened for reading.

    Args:
        chunks: the networks, read as they are iterated; they can be iterated once.
        provenance: JSON object that says what was read.
        recipes: split name -> recipe and seed, for splits that a format says more of than their rows; others
            get the recipe ``{"method": "imported"}``.
        notes: what could not be kept exactly; complete when the chunks are exhausted.
    """

    chunks: Iterator[Rows]
    provenance: Mapping[str, Any]
    recipes: Mapping[str, tuple[Mapping[str, Any], int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class DescribedModule:
    """A module that the user named: how it runs, and inputs to trace it with."""

    module: nn.Module
    inputs: tuple[Any, ...]
    keywords: Mapping[str, Any]
    forward: ForwardDefinition


@dataclass(frozen=True)
class ImportOptions:
    """What a user may say beside the folder.

    Args:
        module: the networks' module, for formats that hold no architecture.
        spec: the networks' specification, likewise; they can then be read but not run.
        labels: CSV of metadata, for formats that hold none.
        grid: pixels ``(H, W)`` that INRs are rendered on, where the format does not say.
        w0: factor inside the sines of SIRENs, where the format does not say.
    """

    module: DescribedModule | None = None
    spec: WeightSpec | None = None
    labels: Path | None = None
    grid: tuple[int, ...] | None = None
    w0: float | None = None

    def given(self) -> list[str]:
        """Names of the options that are set."""
        return [name for name in self.__dataclass_fields__ if getattr(self, name) is not None]


class ZooFormat(ABC):
    """One public layout of zoos on a disk.

    Everything that :meth:`read` meets is data from other people: it runs no code, follows no path that a
    file names out of the source, and keeps at most a few chunks in memory.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def read(self, source: Path, options: ImportOptions) -> Source:
        """Open a zoo of this format.

        Raises:
            ZooError: here or while the chunks are read: the files are not of this format, contradict one
                another, or are damaged. The message names file, row and tensor.
        """

    @abstractmethod
    def write(self, zoo: Zoo, destination: Path) -> list[str]:
        """Write a zoo into the new folder ``destination``.

        Returns:
            What the format cannot hold and was left out: one sentence each.

        Raises:
            ZooError: the format cannot hold these networks.
        """
