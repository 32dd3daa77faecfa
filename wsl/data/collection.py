"""Zoos of any architectures as one list of networks."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import Dataset

from wsl.augment import Augmentation, AugmentError, Networks, augment
from wsl.data.batch import MixedBatch
from wsl.data.loading import module_for
from wsl.data.sampling import BatchRequest
from wsl.data.statistics import WeightStatistics, by_block
from wsl.spec import WeightSpec
from wsl.zoo import ForwardDefinition, Zoo


class GroupRows(NamedTuple):
    """Some networks of one architecture.

    Attributes:
        architecture: its number in ``specs``.
        positions: ``(B,)``, their places among the rows that were asked for.
        weights: ``(B, *shape)`` by name.
    """

    architecture: int
    positions: np.ndarray
    weights: dict[str, Tensor]


class ZooCollection:
    """The networks of several zoos, of any architectures, numbered on from one zoo to the next.

    Architectures with equal specifications are one, in whichever zoos they are.

    Args:
        zoos: at least one.

    Attributes:
        specs: the architectures.
        architectures: ``(rows,)``, the number of each row's architecture.
    """

    def __init__(self, zoos: Sequence[Zoo]) -> None:
        self.zoos = tuple(zoos)
        self._starts = np.cumsum([0, *map(len, self.zoos)])
        numbers: dict[WeightSpec, int] = {}
        self.architectures = np.empty(self._starts[-1], dtype=np.int64)
        for start, zoo in zip(self._starts, self.zoos, strict=False):
            for view in zoo.architectures.values():
                self.architectures[start + view.rows] = numbers.setdefault(view.spec, len(numbers))
        self.specs = tuple(numbers)

    def __len__(self) -> int:
        return len(self.architectures)

    @property
    def fingerprint(self) -> str:
        """Identity of the content: that of the zoo if there is only one, 32 hex digits."""
        parts = [zoo.fingerprint for zoo in self.zoos]
        return (
            parts[0]
            if len(parts) == 1
            else hashlib.blake2b(" ".join(parts).encode(), digest_size=16).hexdigest()
        )

    def split(self, name: str) -> np.ndarray:
        """``(n,)`` sorted rows of one split of all zoos; raises ZooError where a zoo has no such split."""
        parts = zip(self._starts, self.zoos, strict=False)
        return np.concatenate([start + np.asarray(zoo.split(name)) for start, zoo in parts])

    def where(self, condition: str) -> np.ndarray:
        """``(n,)`` sorted rows that meet a condition on their metadata (:meth:`wsl.zoo.Zoo.where`)."""
        parts = zip(self._starts, self.zoos, strict=False)
        return np.concatenate([start + zoo.where(condition) for start, zoo in parts])

    @property
    def diverged(self) -> np.ndarray:
        """``(n,)`` sorted rows that their zoo calls diverged: weights of others are finite."""
        parts = zip(self._starts, self.zoos, strict=False)
        flags = ((start, zoo.metadata["diverged"]) for start, zoo in parts if "diverged" in zoo.metadata)
        return np.concatenate(
            [np.empty(0, np.int64), *(start + np.flatnonzero(flag) for start, flag in flags)]
        )

    def modules(self, augmentations: Sequence[Augmentation]) -> dict[int, nn.Module | None]:
        """By architecture the modules that ``augmentations`` read, checked by them; none if none reads them.

        Raises:
            ZooError: a zoo does not say how its networks run.
            AugmentError: an augmentation cannot act on them, or networks with one specification run in
                different ways, e.g. SIRENs of different frequencies.
        """
        if not any(augmentation.reads_module for augmentation in augmentations):
            return {}
        return {number: module_for(augmentations, self._forward(number)) for number in range(len(self.specs))}

    def _forward(self, architecture: int) -> ForwardDefinition:
        """How all networks of one architecture run."""
        views = [view for zoo in self.zoos for view in zoo.architectures.values()]
        first, *rest = [view.forward for view in views if view.spec == self.specs[architecture]]
        for other in rest:
            if (other.factory, other.arguments) != (first.factory, first.arguments):
                raise AugmentError(
                    "networks with equal specifications run in different ways: "
                    f"{first.factory} with {dict(first.arguments)}, and {other.factory} with "
                    f"{dict(other.arguments)}.\n"
                    "  Augmentations that depend on how networks run cannot tell them apart: leave them out, "
                    "or give zoos of one kind."
                )
        return first

    def read(self, rows: np.ndarray) -> list[GroupRows]:
        """The weights of some rows by architecture, in order of ``specs``."""
        found: dict[int, list[tuple[np.ndarray, dict[str, Tensor]]]] = {}
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        for owner in np.unique(owners):
            mine = np.flatnonzero(owners == owner)
            for part in self.zoos[owner].locate(rows[mine] - self._starts[owner]):
                positions = mine[part.positions]
                number = int(self.architectures[rows[positions[0]]])
                found.setdefault(number, []).append((positions, part.architecture.weights(part.rows)))
        return [
            GroupRows(
                number,
                np.concatenate([positions for positions, _ in found[number]]),
                _stacked([weights for _, weights in found[number]]),
            )
            for number in sorted(found)
        ]

    def chunks(self, rows: np.ndarray, size: int = 1024) -> Iterator[tuple[WeightSpec, dict[str, Tensor]]]:
        """The weights of some rows, architecture by architecture, at most ``size`` networks at a time."""
        rows = rows[np.argsort(self.architectures[rows], kind="stable")]
        for i in range(0, len(rows), size):
            for group in self.read(rows[i : i + size]):
                yield self.specs[group.architecture], group.weights


class NumberedBatch(NamedTuple):
    """A :class:`MixedBatch` on its way from another process, without the specifications."""

    architectures: tuple[int, ...]
    weights: list[dict[str, Tensor]]
    labels: Tensor
    rows: Tensor


class MixedRows(Dataset[NumberedBatch]):
    """Whole batches of a collection by :class:`BatchRequest`; :meth:`finish` makes a :class:`MixedBatch`.

    Args:
        collection: pickles without file handles, so that spawned workers open their own.
        labels: ``(len(collection),)``, a label for every row.
        augmentations: applied in order to each group, drawn from each request's seed.
        statistics: by kind of block; gives augmentations the scale of each block.
        classes: how many the labels tell apart, for augmentations that mix them.

    Raises:
        ZooError, AugmentError: an augmentation needs to know the networks' modules, and a zoo does not say
            it, or networks of one specification run in different ways.
    """

    def __init__(
        self,
        collection: ZooCollection,
        labels: np.ndarray,
        augmentations: Sequence[Augmentation] = (),
        statistics: WeightStatistics | None = None,
        classes: int | None = None,
    ) -> None:
        self.collection, self.labels, self.classes = collection, labels, classes
        self.augmentations, self.statistics = tuple(augmentations), statistics
        self.modules = collection.modules(self.augmentations)

    def __len__(self) -> int:
        return len(self.collection)

    def __getitem__(self, request: BatchRequest) -> NumberedBatch:
        rows = np.asarray(request.rows)
        groups = self.collection.read(rows)
        generator = torch.Generator().manual_seed(request.seed)
        changed = [self._augmented(group, rows[group.positions], generator) for group in groups]
        return NumberedBatch(
            tuple(group.architecture for group in groups),
            [weights for weights, _ in changed],
            torch.cat([labels for _, labels in changed]),
            torch.as_tensor(rows[np.concatenate([group.positions for group in groups])]),
        )

    def finish(self, batch: NumberedBatch) -> MixedBatch:
        """The batch with its specifications: always the same objects, which caches find fastest."""
        specs = [self.collection.specs[number] for number in batch.architectures]
        return MixedBatch(tuple(zip(specs, batch.weights, strict=True)), batch.labels, batch.rows)

    def _augmented(
        self, group: GroupRows, rows: np.ndarray, generator: Generator
    ) -> tuple[dict[str, Tensor], Tensor]:
        labels = torch.as_tensor(self.labels[rows])
        if not self.augmentations:
            return group.weights, labels
        assert self.statistics is not None
        spec = self.collection.specs[group.architecture]
        std = by_block(spec, self.statistics).std
        module = self.modules.get(group.architecture)
        given = Networks(spec, group.weights, labels, self.classes, std, module)
        changed = augment(given, self.augmentations, generator=generator)
        assert changed.labels is not None
        return dict(changed.weights), changed.labels


def _stacked(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return (
        parts[0]
        if len(parts) == 1
        else {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    )
