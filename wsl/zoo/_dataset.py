"""A zoo as a ``torch.utils.data.Dataset``, for loops of one's own."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from wsl.zoo._architecture import ZooArchitecture
from wsl.zoo._map import Rows, select
from wsl.zoo._store import Zoo


class ZooDataset(Dataset[dict[str, Any]]):
    """Networks of one architecture as items that PyTorch's own collate function stacks.

    An item is ``{"weights": {name: tensor of its shape}, "row": int, "metadata": {column: value}}``. A loader
    reads each batch at once. Pickles as its zoo does, so that it works in any loader worker.

    Args:
        zoo: a zoo of one architecture, or one of :attr:`Zoo.architectures`.
        rows: row numbers, a boolean mask, a slice, or None for all; of the architecture, if one is given.
        columns: metadata columns of an item; None for all.

    Raises:
        ZooError: several architectures, or a row or column that does not exist.
    """

    def __init__(
        self, zoo: Zoo | ZooArchitecture, rows: Rows = None, columns: Sequence[str] | None = None
    ) -> None:
        if isinstance(zoo, Zoo):
            zoo.spec  # noqa: B018  raises for several architectures
            (zoo,) = zoo.architectures.values()
        self.architecture = zoo
        self.rows = np.arange(len(zoo))[select(rows, len(zoo))]
        metadata = zoo.metadata
        names = list(metadata) if columns is None else columns
        self._columns = {name: metadata[name][self.rows] for name in names}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -len(self) <= index < len(self):  # iteration over a dataset ends by this type of error
            raise IndexError(f"Item {index} does not exist: the dataset has {len(self)}.")
        (item,) = self.__getitems__([index])
        return item

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """The items of one batch, from one read; called by ``DataLoader``."""
        chosen = self.rows[select(indices, len(self))]
        weights = self.architecture.weights(chosen)
        return [
            {
                "weights": {name: tensor[i] for name, tensor in weights.items()},
                "row": int(row),
                "metadata": {name: column[index].item() for name, column in self._columns.items()},
            }
            for i, (row, index) in enumerate(zip(chosen, indices, strict=True))
        ]
