"""Which rows make a batch, and in which order batches come."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from torch.utils.data import DistributedSampler


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
        """This process's rows of the epoch, batch after batch."""
        if not self.shuffle:
            return self.rows[self.rank :: self.num_replicas]
        return self.rows[self._order(np.random.default_rng((self.seed, self.epoch)))][
            self.rank :: self.num_replicas
        ]

    def _order(self, generator: np.random.Generator) -> np.ndarray:
        """Places in ``rows`` in random order; the first ones again until all processes get equally many."""
        order = generator.permutation(len(self.rows))
        return np.resize(order, len(order) + -len(order) % self.num_replicas)


class ArchitectureSampler(BatchSampler):
    """Batches mostly of one architecture, in an epoch as fair as if all rows were shuffled together.

    Each row comes once an epoch. Every architecture's rows, in random order, fill as many batches as they
    can; what is left of all architectures is shuffled together and fills mixed batches of the same size; then
    all batches are shuffled. Only the last batch may be smaller, as in :class:`BatchSampler`: its rows are
    drawn from all rows alike before the others are grouped, so that no architecture's rows weigh more. Thus
    each row's weight in the sum of the batches' mean gradients is the same in expectation, and exactly the
    same where ``batch_size * replicas`` divides the number of rows.

    Processes of one step may get batches of different architectures.

    Args:
        rows: rows to draw from.
        architectures: ``(len(rows),)``, a number for the architecture of each.
        batch_size, shuffle, seed, replicas, rank: as :class:`BatchSampler`; without shuffling, rows come
            architecture after architecture.
    """

    def __init__(
        self,
        rows: Sequence[int] | np.ndarray,
        architectures: Sequence[int] | np.ndarray,
        batch_size: int,
        *,
        shuffle: bool,
        seed: int,
        replicas: int = 1,
        rank: int = 0,
    ) -> None:
        kinds = np.asarray(architectures)
        if kinds.shape != np.shape(rows):
            raise ValueError(
                f"architectures has shape {kinds.shape} and rows {np.shape(rows)}; expected a number for "
                "each row."
            )
        sorting = np.argsort(kinds, kind="stable")
        ordered = np.asarray(rows, dtype=np.int64)[sorting]
        super().__init__(ordered, batch_size, shuffle=shuffle, seed=seed, replicas=replicas, rank=rank)
        self.architectures = kinds[sorting]

    def _epoch_rows(self) -> np.ndarray:
        if not self.shuffle:
            return super()._epoch_rows()
        generator, size = np.random.default_rng((self.seed, self.epoch)), self.batch_size
        order = self._order(generator)
        grouped = len(order) - len(order) % (size * self.num_replicas)
        rest, last = order[:grouped], order[grouped:]
        kinds = self.architectures[rest]
        whole, left = [rest[:0]], [rest[:0]]
        for kind in np.unique(kinds):
            own = rest[kinds == kind]
            full = len(own) - len(own) % size
            whole.append(own[:full])
            left.append(own[full:])
        places = np.concatenate([*whole, generator.permutation(np.concatenate(left))])
        batches = generator.permutation(places.reshape(-1, size))
        own = np.concatenate(
            [batches[self.rank :: self.num_replicas].ravel(), last[self.rank :: self.num_replicas]]
        )
        return self.rows[own]
