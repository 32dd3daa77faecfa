"""Lightning data modules over zoos."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from torch import Tensor

from wsl.augment import Augmentation
from wsl.data.base import BaseDataModule, DataError, Targets
from wsl.data.collection import MixedRows, ZooCollection
from wsl.data.loading import WeightLoader, ZooRows
from wsl.data.sampling import ArchitectureSampler, BatchSampler
from wsl.data.statistics import WeightStatistics, mixed_statistics, zoo_statistics
from wsl.spec import WeightSpec
from wsl.zoo import ForwardDefinition, MissingColumnError, Zoo, ZooError
from wsl.zoo.images import ImageSource

MOST_CLASSES = 1_000_000
_SPLITS = ("train", "val", "test")
_SHOWN = 5
_EXAMPLES = 4096  # images that probes may start at


class ZooDataModule(BaseDataModule):
    """Batches of networks from one zoo or several, in the splits that the zoos store.

    Each batch is one read of the store. Order and augmentations of an epoch depend on ``seed`` and the
    epoch only, so that a resumed run sees what the unbroken one would have seen, also in the middle of an
    epoch.

    A zoo of several architectures, and a list of zoos (also of one), give mixed batches: most of one
    architecture, each row once an epoch (:class:`ArchitectureSampler`). Rows are numbered on from one zoo to
    the next. Each architecture's networks need a forward pass of their own, so batches outside training are
    sorted by architecture.

    Args:
        path: a zoo file, as written by ``python -m wsl zoo build``, or a list of them.
        batch_size: networks in a batch (of each process).
        label: the metadata column to predict, or numbers computed from columns, such as
            ``train_accuracy - test_accuracy``.
        where: condition on the metadata that networks of all splits meet, such as ``step == 86``; or one for
            each split that needs one, so that training sees other networks than the test:
            ``{train: "activation == 'relu'", test: "activation == 'tanh'"}``.
        augmentations: changes of training batches, in order.
        eval_batch_size: networks in a batch outside training; ``batch_size`` if not given.
        num_workers: reading processes; 0 reads in the training process, which is fastest for small networks.
        seed: draws the order of batches and the augmentations.
        predict_split: the split that ``predict`` reads.
        images: of the kind that classifiers in the zoo were built for; learned probes of them start at some
            of these, in place of noise.

    Raises:
        DataError: the file or the label column is missing, a split is empty, or a resumed run used other
            data.
        ZooError: the file is no zoo, or damaged.
    """

    def __init__(
        self,
        path: list[str] | str,
        batch_size: int = 64,
        label: str = "label",
        augmentations: Sequence[Augmentation] = (),
        eval_batch_size: int | None = None,
        num_workers: int = 0,
        seed: int = 0,
        predict_split: str = "test",
        where: dict[str, str] | str | None = None,
        images: ImageSource | None = None,
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
        self.paths = tuple(map(str, path)) if isinstance(path, list | tuple) else (str(path),)
        if not self.paths:
            raise DataError("path names no zoo; give a file, or a list of files.")
        self.path, self.label = ", ".join(self.paths), label
        self._listed = isinstance(path, list | tuple)
        self.batch_size, self.eval_batch_size = batch_size, eval_batch_size or batch_size
        self.augmentations = tuple(augmentations)
        self.num_workers, self.seed, self.predict_split = num_workers, seed, predict_split
        self.where = dict(where) if isinstance(where, Mapping) else where
        self.images = images
        self._zoos: ZooCollection | None = None
        self._statistics: WeightStatistics | None = None
        self._examples: Tensor | None = None
        self._labels: np.ndarray | None = None
        self._sound: set[str] = set()

    def __str__(self) -> str:
        return self.path

    def setup(self, stage: str) -> None:
        if self._zoos is not None:
            return
        zoos = [Zoo.open(path) for path in self.paths]
        parts = [_labels(zoo, self.label) for zoo in zoos]
        whole = all(part.dtype == np.int64 for part in parts)
        self._labels = np.concatenate(parts).astype(np.int64 if whole else np.float32, copy=False)
        self._check_where(zoos)
        self._zoos = ZooCollection(zoos)

    def check(self, stage: str) -> None:
        self.setup(stage)
        splits = {"fit": ("train", "val"), "validate": ("val",), "predict": (self.predict_split,)}
        for split in splits.get(stage, (stage,)):
            self.rows(split)
            if split != "train":  # whose statistics find it
                self._check_finite(split)
        if stage == "fit":
            self.zoos.modules(self.augmentations)
            _ = self.statistics

    @property
    def zoos(self) -> ZooCollection:
        """The open zoos; ``setup`` opens them if nothing has yet."""
        if self._zoos is None:
            self.setup("fit")
        assert self._zoos is not None
        return self._zoos

    @property
    def mixed(self) -> bool:
        return self._listed or len(self.zoos.specs) > 1

    @property
    def labels(self) -> np.ndarray:
        """A label for every row: int64 for classes, float32 otherwise."""
        assert self.zoos is not None and self._labels is not None
        return self._labels

    @property
    def spec(self) -> WeightSpec:
        return self.zoos.specs[0]

    @property
    def forward_definitions(self) -> list[tuple[WeightSpec, ForwardDefinition]]:
        views = (view for zoo in self.zoos.zoos for view in zoo.architectures.values())
        return [(view.spec, view.forward) for view in views]

    @property
    def examples(self) -> Tensor | None:
        if self.images is None:
            return None
        if self._examples is None:
            images = self.images.load()
            rows = np.random.default_rng(self.seed).permutation(len(images))[:_EXAMPLES]
            self._examples = images.inputs(np.sort(rows))
        return self._examples

    @property
    def statistics(self) -> WeightStatistics:
        if self._statistics is None:
            rows = self.rows("train")
            try:
                if self.mixed:
                    self._statistics = mixed_statistics(self.zoos.chunks(rows))
                else:
                    self._statistics = zoo_statistics(self.zoos.zoos[0], rows)
            except ZooError:
                raise
            except ValueError:
                self._check_finite("train")
                raise
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
    def targets(self) -> Targets:
        values: dict[str, np.ndarray] = {}
        for split in _SPLITS:
            with suppress(DataError, ZooError):  # there is no such network
                values[split] = self.labels[self.rows(split)].astype(np.float64)
        if not values:
            self.rows(_SPLITS[0])  # which says why
        for split, some in values.items():
            if missing := int((~np.isfinite(some)).sum()):
                raise DataError(
                    f"{self.label!r} of {self.path} is not finite for {missing} of {len(some)} networks in "
                    f"split {split!r}.\n"
                    "  Leave them out with data.where, such as diverged == 0, or name another column with "
                    "data.label."
                )
        train = values.get("train", np.full(1, np.nan))
        every = np.concatenate(list(values.values()))
        return Targets(float(train.mean()), float(train.std()), float(every.min()), float(every.max()))

    @property
    def fingerprint(self) -> str:
        return self.zoos.fingerprint

    def rows(self, split: str) -> np.ndarray:
        """Rows of a split that meet its condition, sorted as stored.

        Raises:
            DataError: the zoo has no such split, or it is empty, or no row of it meets the condition.
            ZooError: a condition cannot be read.
        """
        rows = np.asarray(self.zoos.split(split))
        if rows.size == 0:
            raise DataError(f"split {split!r} of {self.path} is empty; build the zoo with a share for it.")
        condition = self.where.get(split) if isinstance(self.where, dict) else self.where
        if condition is None:
            return rows
        chosen = np.intersect1d(rows, self.zoos.where(condition))
        if chosen.size == 0:
            raise DataError(
                f"none of the {len(rows)} networks in split {split!r} of {self.path} meets the condition "
                f"{condition!r}.\n  Look at the columns with `python -m wsl zoo info`, and change data.where."
            )
        return chosen

    def train_dataloader(self) -> WeightLoader:
        return self._loader("train", self.batch_size, train=True)

    def val_dataloader(self) -> WeightLoader:
        return self._loader("val", self.eval_batch_size)

    def test_dataloader(self) -> WeightLoader:
        return self._loader("test", self.eval_batch_size)

    def predict_dataloader(self) -> WeightLoader:
        return self._loader(self.predict_split, self.eval_batch_size)

    def state_dict(self) -> dict[str, Any]:
        return {
            "fingerprint": self.fingerprint,
            "label": self.label,
            "where": self.where,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "augmentations": [f"{type(change).__name__}({vars(change)})" for change in self.augmentations],
        }

    def _check_finite(self, split: str) -> None:
        """Raise DataError for networks whose weights are not finite: their metrics would not be either."""
        if split in self._sound:
            return
        rows = self.rows(split)
        flagged = np.intersect1d(rows, self.zoos.diverged)  # no other rows can hold such values
        bad: list[int] = []
        for group in self.zoos.read(flagged) if len(flagged) else ():
            finite = [tensor.flatten(1).isfinite().all(1).numpy() for tensor in group.weights.values()]
            bad += flagged[group.positions][~np.logical_and.reduce(finite)].tolist()
        if bad:
            shown = ", ".join(map(str, sorted(bad)[:_SHOWN])) + (", …" if len(bad) > _SHOWN else "")
            raise DataError(
                f"the split {split!r} of {self.path} has networks whose weights are not finite: {len(bad)} "
                f"of {len(rows)}, in rows {shown}.\n"
                "  Leave networks out that diverged, with data.where, such as diverged == 0."
            )
        self._sound.add(split)

    def _check_where(self, zoos: Sequence[Zoo]) -> None:
        """Raise DataError for conditions on splits that nobody would read."""
        known = {*_SPLITS, self.predict_split, *(split for zoo in zoos for split in zoo.splits)}
        given = self.where if isinstance(self.where, dict) else {}
        if unknown := sorted(set(given) - known):
            raise DataError(
                f"where has a condition for {', '.join(map(repr, unknown))}, but the splits are "
                f"{', '.join(sorted(known))}.\n  Name one of them in data.where."
            )

    def _mixed_classes(self) -> int | None:
        """How many classes mixed labels tell apart; ``None`` where nothing mixes, or labels are numbers."""
        mixes = any(change.mixes_labels for change in self.augmentations)
        return self.classes if mixes and self.labels.dtype == np.int64 else None

    def _loader(self, split: str, batch_size: int, train: bool = False) -> WeightLoader:
        trainer, rows = self.trainer, self.rows(split)
        if not train:
            self._check_finite(split)
        changes = self.augmentations if train else ()
        statistics = self.statistics if changes else None
        classes = self._mixed_classes() if changes else None
        order: dict[str, Any] = {
            "shuffle": train,
            "seed": self.seed,
            "replicas": trainer.world_size if trainer else 1,
            "rank": trainer.global_rank if trainer else 0,
        }
        pin = trainer is not None and trainer.strategy.root_device.type == "cuda"
        options: dict[str, Any] = {"workers": self.num_workers, "pin_memory": pin}
        if self.mixed:
            mixed = MixedRows(self.zoos, self.labels, changes, statistics, classes)
            sampler = ArchitectureSampler(rows, self.zoos.architectures[rows], batch_size, **order)
            return WeightLoader(mixed, sampler, finish=mixed.finish, **options)
        alike = ZooRows(self.zoos.zoos[0], self.labels, changes, statistics, classes)
        return WeightLoader(alike, BatchSampler(rows, batch_size, **order), **options)


def _labels(zoo: Zoo, column: str) -> np.ndarray:
    try:
        values = zoo.column(column)
    except MissingColumnError as err:
        raise DataError(
            f"the zoo has no metadata column {err.column!r}; it has {', '.join(sorted(zoo.metadata))}.\n"
            "  Name one of them with data.label."
        ) from err
    if values.dtype.kind not in "iufb":
        raise DataError(
            f"column {column!r} of {zoo.path} holds text such as {str(values[0])!r}; expected numbers.\n"
            "  Store the class of each network as a whole number from 0, or name another column with "
            "data.label."
        )
    return values.astype(np.int64 if np.issubdtype(values.dtype, np.integer) else np.float32)
