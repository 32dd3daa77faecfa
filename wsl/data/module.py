"""Lightning data modules over zoos."""

from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
import numpy as np

from wsl.augment import Augmentation
from wsl.data.loading import BatchSampler, WeightLoader, ZooRows
from wsl.data.statistics import WeightStatistics, zoo_statistics
from wsl.spec import WeightSpec
from wsl.zoo import ForwardDefinition, Zoo


MOST_CLASSES = 1_000_000


class DataError(ValueError):
    """The data of a run are missing, or do not fit what the run asks of them."""


class BaseDataModule(pl.LightningDataModule):
    """What every task may ask of its data, available after ``setup``."""

    def check(self, stage: str) -> None:
        """Raise what would stop a run of ``fit``, ``validate``, ``test`` or ``predict``, before it starts."""
        self.setup(stage)

    @property
    def spec(self) -> WeightSpec:
        """The specification of the networks in every batch."""
        raise NotImplementedError

    @property
    def forward_definition(self) -> ForwardDefinition | None:
        """How to rebuild the networks as a module and run them, where the zoo knows."""
        raise NotImplementedError

    @property
    def statistics(self) -> WeightStatistics:
        """Statistics of the train split."""
        raise NotImplementedError

    @property
    def classes(self) -> int:
        """Number of classes that the labels tell apart."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """Identifies the data's content, for logs and to refuse resuming on other data."""
        raise NotImplementedError


class ZooDataModule(BaseDataModule):
    """Batches of networks from one zoo, in the splits that the zoo stores.

    Each batch is one read of the store. Order and augmentations of an epoch depend on ``seed`` and the
    epoch only, so that a resumed run sees what the unbroken one would have seen, also in the middle of an
    epoch.

    Args:
        path: a zoo file, as written by ``python -m wsl zoo build``.
        batch_size: networks in a batch (of each process).
        label: the metadata column to predict.
        augmentations: changes of training batches, in order.
        eval_batch_size: networks in a batch outside training; ``batch_size`` if not given.
        num_workers: reading processes; 0 reads in the training process, which is fastest for small networks.
        seed: draws the order of batches and the augmentations.
        predict_split: the split that ``predict`` reads.

    Raises:
        DataError: the file or the label column is missing, a split is empty, or a resumed run used other
            data.
        ZooError: the file is no zoo, or damaged.
    """

    def __init__(
        self,
        path: str,
        batch_size: int = 64,
        label: str = "label",
        augmentations: Sequence[Augmentation] = (),
        eval_batch_size: int | None = None,
        num_workers: int = 0,
        seed: int = 0,
        predict_split: str = "test",
    ) -> None:
        super().__init__()
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("eval_batch_size", eval_batch_size, 1),
            ("num_workers", num_workers, 0),
            ("seed", seed, 0),
        ):
            if value is not None and value < least:
                raise DataError(f"{name} is {value}; expected at least {least}.")
        self.path, self.label = str(path), label
        self.batch_size, self.eval_batch_size = batch_size, eval_batch_size or batch_size
        self.augmentations = tuple(augmentations)
        self.num_workers, self.seed, self.predict_split = num_workers, seed, predict_split
        self._zoo: Zoo | None = None
        self._statistics: WeightStatistics | None = None
        self._labels: np.ndarray | None = None

    def setup(self, stage: str) -> None:
        if self._zoo is not None:
            return
        zoo = Zoo.open(self.path)
        self._labels = _labels(zoo, self.label)
        self._zoo = zoo

    def check(self, stage: str) -> None:
        self.setup(stage)
        splits = {"fit": ("train", "val"), "validate": ("val",), "predict": (self.predict_split,)}
        for split in splits.get(stage, (stage,)):
            self.rows(split)

    @property
    def zoo(self) -> Zoo:
        """The open zoo; ``setup`` opens it if nothing has yet."""
        if self._zoo is None:
            self.setup("fit")
        assert self._zoo is not None
        return self._zoo

    @property
    def labels(self) -> np.ndarray:
        """``(len(zoo),)``: int64 for classes, float32 otherwise."""
        assert self.zoo is not None and self._labels is not None
        return self._labels

    @property
    def spec(self) -> WeightSpec:
        return self.zoo.spec

    @property
    def forward_definition(self) -> ForwardDefinition | None:
        return self.zoo.forward

    @property
    def statistics(self) -> WeightStatistics:
        if self._statistics is None:
            self._statistics = zoo_statistics(self.zoo, self.rows("train"))
        return self._statistics

    @property
    def classes(self) -> int:
        if self.labels.dtype != np.int64 or self.labels.min() < 0:
            raise DataError(
                f"column {self.label!r} of {self.path} does not number classes: it holds "
                f"{self.labels.dtype} values from {self.labels.min()} on.\n"
                "  Classification needs whole numbers from 0; name another column with data.label."
            )
        classes = int(self.labels.max()) + 1
        if not 1 < classes <= MOST_CLASSES:
            raise DataError(
                f"column {self.label!r} of {self.path} numbers its classes up to {classes - 1}, which makes "
                f"{classes} of them; expected 2 to {MOST_CLASSES}.\n"
                "  Name another column with data.label, or number the classes from 0 on."
            )
        return classes

    @property
    def fingerprint(self) -> str:
        return self.zoo.fingerprint

    def rows(self, split: str) -> np.ndarray:
        """Zoo rows of a split, sorted as stored.

        Raises:
            DataError: the zoo has no such split, or it is empty.
        """
        rows = np.asarray(self.zoo.split(split))
        if rows.size == 0:
            raise DataError(f"split {split!r} of {self.path} is empty; build the zoo with a share for it.")
        return rows

    def train_dataloader(self) -> WeightLoader:
        statistics = self.statistics if self.augmentations else None
        rows = ZooRows(self.zoo, self.labels, self.augmentations, statistics)
        return self._loader(rows, "train", self.batch_size, shuffle=True)

    def val_dataloader(self) -> WeightLoader:
        return self._loader(ZooRows(self.zoo, self.labels), "val", self.eval_batch_size)

    def test_dataloader(self) -> WeightLoader:
        return self._loader(ZooRows(self.zoo, self.labels), "test", self.eval_batch_size)

    def predict_dataloader(self) -> WeightLoader:
        return self._loader(ZooRows(self.zoo, self.labels), self.predict_split, self.eval_batch_size)

    def state_dict(self) -> dict[str, Any]:
        return {
            "fingerprint": self.fingerprint,
            "label": self.label,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "augmentations": [f"{type(change).__name__}({vars(change)})" for change in self.augmentations],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Refuse to resume training on other data than the checkpoint's; evaluation may read any zoo."""
        if self.trainer is None or self.trainer.state.fn != "fit":
            return
        given = self.state_dict()
        if changed := [key for key, value in given.items() if state_dict.get(key) != value]:
            differences = ", ".join(
                f"{key} was {state_dict.get(key)!r} and is {given[key]!r}" for key in changed
            )
            raise DataError(
                f"the run to resume saw other data than {self.path}: {differences}.\n"
                "  Resume with the run's own data settings, or start a run under another name."
            )

    def _loader(self, dataset: ZooRows, split: str, batch_size: int, shuffle: bool = False) -> WeightLoader:
        trainer = self.trainer
        sampler = BatchSampler(
            self.rows(split),
            batch_size,
            shuffle=shuffle,
            seed=self.seed,
            replicas=trainer.world_size if trainer else 1,
            rank=trainer.global_rank if trainer else 0,
        )
        pin = trainer is not None and trainer.strategy.root_device.type == "cuda"
        return WeightLoader(dataset, sampler, workers=self.num_workers, pin_memory=pin)


def _labels(zoo: Zoo, column: str) -> np.ndarray:
    if column not in zoo.metadata:
        raise DataError(
            f"the zoo has no metadata column {column!r}; it has {', '.join(sorted(zoo.metadata))}.\n"
            "  Name one of them with data.label."
        )
    values = np.asarray(zoo.metadata[column])
    if values.dtype.kind not in "iufb":
        raise DataError(
            f"column {column!r} of {zoo.path} holds text such as {str(values[0])!r}; expected numbers.\n"
            "  Store the class of each network as a whole number from 0, or name another column with data.label."
        )
    return values.astype(np.int64 if np.issubdtype(values.dtype, np.integer) else np.float32)
