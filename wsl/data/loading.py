"""Reading batches of a zoo, and how a loader continues where it stopped."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from wsl.augment import Augmentation, Networks, augment
from wsl.data.batch import MixedBatch, WeightBatch
from wsl.data.sampling import BatchRequest, BatchSampler
from wsl.data.statistics import WeightStatistics
from wsl.zoo import ForwardDefinition, Zoo


class ZooRows(Dataset[WeightBatch]):
    """Whole batches of a zoo by :class:`BatchRequest`: one read of the store a batch.

    Args:
        zoo: pickles without its file handles, so that spawned workers open their own.
        labels: ``(len(zoo),)``, a label for every row.
        augmentations: applied in order, drawn from each request's seed.
        statistics: gives augmentations the scale of each tensor.
        classes: how many the labels tell apart, for augmentations that mix them.

    Raises:
        ZooError: an augmentation needs to know the networks' module, and the zoo does not say it.
    """

    def __init__(
        self,
        zoo: Zoo,
        labels: np.ndarray,
        augmentations: Sequence[Augmentation] = (),
        statistics: WeightStatistics | None = None,
        classes: int | None = None,
    ) -> None:
        self.zoo, self.labels, self.classes = zoo, labels, classes
        self.augmentations, self.statistics = tuple(augmentations), statistics
        self.module = module_for(self.augmentations, zoo.forward)

    def __len__(self) -> int:
        return len(self.zoo)

    def __getitem__(self, request: BatchRequest) -> WeightBatch:
        rows = np.asarray(request.rows)
        weights: Mapping[str, Tensor] = self.zoo.weights(rows)
        labels = torch.as_tensor(self.labels[rows])
        if self.augmentations:
            assert self.statistics is not None
            given = Networks(self.zoo.spec, weights, labels, self.classes, self.statistics.std, self.module)
            generator = torch.Generator().manual_seed(request.seed)
            changed = augment(given, self.augmentations, generator=generator)
            assert changed.labels is not None
            weights, labels = changed.weights, changed.labels
        return WeightBatch(dict(weights), labels, torch.as_tensor(rows))


def module_for(augmentations: Sequence[Augmentation], forward: ForwardDefinition) -> nn.Module | None:
    """The module that ``augmentations`` read, checked by them; ``None`` if none of them reads it.

    Raises:
        ZooError: the zoo does not say how its networks run.
        AugmentError: an augmentation cannot act on them.
    """
    readers = [augmentation for augmentation in augmentations if augmentation.reads_module]
    if not readers:
        return None
    module = forward.build()
    for augmentation in readers:
        augmentation.check(module)
    return module


class WeightLoader:
    """An iterable of batches that can continue in the middle of an epoch.

    Wraps a ``DataLoader`` and implements the ``state_dict``/``load_state_dict`` protocol that Lightning saves
    with each checkpoint. The underlying iterator starts with the first batch that is asked for, after the
    epoch has been set: workers prefetch, and started earlier they would read the order of another epoch.

    Args:
        dataset: gives what a :class:`BatchRequest` asks for.
        finish: makes a batch of it in this process; if not given, it is one already.
        workers: reading processes, started by ``spawn``; 0 reads in this process.
        pin_memory: copy batches into page-locked memory, for transfer to a GPU.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        sampler: BatchSampler,
        *,
        finish: Callable[[Any], MixedBatch] | None = None,
        workers: int = 0,
        pin_memory: bool = False,
    ) -> None:
        self.sampler = sampler
        self._finish = finish
        self.batch_sampler = None  # Lightning looks for a sampler here first
        self._yielded = 0
        self._loader = DataLoader(
            dataset,
            batch_size=None,
            sampler=sampler,
            num_workers=workers,
            multiprocessing_context="spawn" if workers else None,
            persistent_workers=workers > 0,
            pin_memory=pin_memory,
            generator=torch.Generator().manual_seed(sampler.seed),
        )

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[WeightBatch | MixedBatch]:
        self._yielded = self.sampler.start
        for batch in self._loader:
            self._yielded += 1
            yield batch if self._finish is None else self._finish(batch)

    def state_dict(self) -> dict[str, int]:
        """Epoch, and the number of its batches that were handed out."""
        return {"epoch": self.sampler.epoch, "batches": self._yielded}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue behind the batches that ``state`` counts; a complete epoch starts from its front."""
        self.sampler.set_epoch(state["epoch"])
        self.sampler.start = state["batches"] % len(self.sampler)
