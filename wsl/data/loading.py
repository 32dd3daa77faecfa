"""Reading batches of a zoo: which rows, in which order, and how a loader continues where it stopped."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from wsl.augment import Augmentation, augment
from wsl.data.batch import WeightBatch
from wsl.data.statistics import WeightStatistics
from wsl.zoo import Zoo


class BatchRequest(NamedTuple):
    """The rows of one batch, and a seed for what is drawn in it."""

    rows: tuple[int, ...]
    seed: int


class BatchSampler(DistributedSampler):
    """Batches of ``rows``, shuffled anew in each epoch by ``seed`` and the epoch alone.

    It is a ``DistributedSampler`` so that Lightning leaves it in place: each of ``replicas`` processes
    draws its share of every global batch. Training drops nothing with one process; with several, all get
    equally many batches, and rows that do not fill a batch wrap around to the epoch's first ones.

    Args:
        rows: zoo rows to draw from.
        batch_size: networks a batch and process.
        shuffle: without it, rows come in their order and are never repeated.
        replicas, rank: number of processes, and this one's index.

    Attributes:
        start: batches to leave out at the front of the next pass.
    """

    def __init__(
        self,
        rows: Sequence[int] | np.ndarray,
        batch_size: int,
        *,
        shuffle: bool,
        seed: int,
        replicas: int = 1,
        rank: int = 0,
    ) -> None:
        self.rows = np.asarray(rows, dtype=np.int64)
        super().__init__(self.rows, replicas, rank, shuffle=shuffle, seed=seed)  # type: ignore[arg-type]
        self.batch_size = batch_size
        self.start = 0

    def __len__(self) -> int:
        if self.shuffle:
            return -(-len(self.rows) // (self.batch_size * self.num_replicas))
        return -(-len(self.rows[self.rank :: self.num_replicas]) // self.batch_size)

    def __iter__(self) -> Iterator[BatchRequest]:
        rows = self._epoch_rows()
        start, self.start = self.start, 0
        for index in range(start, len(self)):
            chosen = rows[index * self.batch_size : (index + 1) * self.batch_size]
            entropy = (self.seed, self.epoch, index, self.rank)
            seed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1)
            yield BatchRequest(tuple(chosen.tolist()), seed)

    def _epoch_rows(self) -> np.ndarray:
        if not self.shuffle:
            return self.rows[self.rank :: self.num_replicas]
        order = np.random.default_rng((self.seed, self.epoch)).permutation(len(self.rows))
        missing = -len(order) % self.num_replicas
        return self.rows[np.resize(order, len(order) + missing)][self.rank :: self.num_replicas]


class ZooRows(Dataset[WeightBatch]):
    """Whole batches of a zoo by :class:`BatchRequest`: one read of the store a batch.

    Args:
        zoo: pickles without its file handles, so that spawned workers open their own.
        labels: ``(len(zoo),)``, a label for every row.
        augmentations: applied in order, drawn from each request's seed.
        statistics: gives augmentations the scale of each tensor.
    """

    def __init__(
        self,
        zoo: Zoo,
        labels: np.ndarray,
        augmentations: Sequence[Augmentation] = (),
        statistics: WeightStatistics | None = None,
    ) -> None:
        self.zoo, self.labels = zoo, labels
        self.augmentations, self.statistics = tuple(augmentations), statistics

    def __len__(self) -> int:
        return len(self.zoo)

    def __getitem__(self, request: BatchRequest) -> WeightBatch:
        rows = np.asarray(request.rows)
        weights: Mapping[str, Tensor] = self.zoo.weights(rows)
        if self.augmentations:
            assert self.statistics is not None
            generator = torch.Generator().manual_seed(request.seed)
            weights = augment(
                self.zoo.spec, weights, self.augmentations, std=self.statistics.std, generator=generator
            )
        return WeightBatch(dict(weights), torch.as_tensor(self.labels[rows]), torch.as_tensor(rows))


class WeightLoader:
    """An iterable of :class:`WeightBatch` that can continue in the middle of an epoch.

    Wraps a ``DataLoader`` and implements the ``state_dict``/``load_state_dict`` protocol that Lightning saves
    with each checkpoint. The underlying iterator starts with the first batch that is asked for, after the
    epoch has
    been set: workers prefetch, and started earlier they would read the order of another epoch.

    Args:
        workers: reading processes, started by ``spawn``; 0 reads in this process.
        pin_memory: copy batches into page-locked memory, for transfer to a GPU.
    """

    def __init__(
        self, dataset: ZooRows, sampler: BatchSampler, *, workers: int = 0, pin_memory: bool = False
    ) -> None:
        self.sampler = sampler
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

    def __iter__(self) -> Iterator[WeightBatch]:
        self._yielded = self.sampler.start
        for batch in self._loader:
            self._yielded += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Epoch, and the number of its batches that were handed out."""
        return {"epoch": self.sampler.epoch, "batches": self._yielded}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue behind the batches that ``state`` counts; a complete epoch starts from its front."""
        self.sampler.set_epoch(state["epoch"])
        self.sampler.start = state["batches"] % len(self.sampler)
