"""What builds of classifier zoos share: their images, and stacks whose checkpoints have metadata."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from wsl.zoo._errors import ZooError
from wsl.zoo.classifiers._architecture import ClassifierArchitecture, Task
from wsl.zoo.classifiers._data import LabelledImages, labelled_images
from wsl.zoo.classifiers._plan import NetworkPlan
from wsl.zoo.classifiers._stack import ClassifierStack
from wsl.zoo.classifiers._train import Checkpoint, evaluate, network_images, train_networks
from wsl.zoo.images import ImageSet, ImageSource
from wsl.zoo.training import TrainedStack, finite_rows

_TESTED_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class TaskImages:
    """What all networks of a zoo train on and are tested on, and what its provenance says of that."""

    train: LabelledImages
    test: LabelledImages
    task: Task
    provenance: dict[str, Any]


def task_images(
    source: ImageSource, test_source: ImageSource | None, limit: int | None, seed: int
) -> TaskImages:
    """Load the images of a zoo; without a source to test on, a fifth is taken out, drawn by ``seed``.

    Raises:
        ZooError: images without labels, too few, or of two sizes.
    """
    given = source.load().first(limit)
    tested = None if test_source is None else test_source.load().first(limit)
    labels = [images.labels for images in (given, tested) if images is not None and images.labels is not None]
    classes = 1 + max((int(array.max()) for array in labels), default=0)
    train = labelled_images(given, classes, "training")
    if classes < 2:
        raise ZooError(
            "All images have the label 0, and classifiers tell two classes or more apart. Sources may be "
            "sorted by class: leave limit out, or set a larger one."
        )
    if tested is None:
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(train)))
        count = round(_TESTED_SHARE * len(train))
        if not 0 < count < len(train):
            raise ZooError(f"{len(train)} images are too few to train on some and to test on others.")
        train, test = (
            LabelledImages(train.pixels[rows], train.labels[rows]) for rows in (order[count:], order[:count])
        )
    else:
        test = labelled_images(tested, classes, "test")
    if train.pixels.shape[1:] != test.pixels.shape[1:]:
        raise ZooError(
            f"The training images are {tuple(train.pixels.shape[1:])} and the test images "
            f"{tuple(test.pixels.shape[1:])}, expected one size."
        )
    provenance = {
        "source": _identity(source, given),
        "test_source": None if tested is None else _identity(test_source, tested),
        "label_names": list(given.label_names),
    }
    return TaskImages(train, test, Task(given.channels, given.grid, classes), provenance)


def drawn_rows(count: int, most: int | None) -> np.ndarray:
    """``most`` of ``count`` rows at random, always the same, or all: sources may be sorted by class."""
    if most is None or most >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).permutation(count)[:most])


def _identity(source: ImageSource | None, images: ImageSet) -> dict[str, Any]:
    return {"class": type(source).__name__, "images": len(images), "identity": images.identity}


@dataclass(frozen=True, eq=False)
class ClassifierTraining:
    """Trains stacks and describes their checkpoints.

    Args:
        evaluated: images at most for each loss and accuracy; None for all.
        dtype: in which weights are stored.
    """

    train_images: LabelledImages
    test_images: LabelledImages
    task: Task
    architecture: ClassifierArchitecture
    evaluated: int | None
    dtype: str

    def train(self, plans: list[NetworkPlan], advance: Callable[[int], None]) -> TrainedStack:
        """Train networks of one stack, see :class:`wsl.zoo.training.Population`."""
        stack = self.architecture.stack(plans[0].forward)
        checkpoints = train_networks(stack, plans, self.train_images, self.task.classes, advance)
        columns: dict[str, list[Any]] = {}
        last = []
        for plan, own in zip(plans, checkpoints, strict=True):
            for name, values in self._columns(stack, plan, own).items():
                columns.setdefault(name, []).extend(values)
            last.append(columns["test_accuracy"][-1])
            advance(0)
        rows = torch.stack([checkpoint.row for own in checkpoints for checkpoint in own])
        return TrainedStack(stack.tensors(rows), columns, np.array(last))

    def _columns(
        self, stack: ClassifierStack, plan: NetworkPlan, checkpoints: list[Checkpoint]
    ) -> dict[str, Any]:
        """Metadata of all checkpoints of one network."""
        train, test, count = self.train_images, self.test_images, len(checkpoints)
        seen = network_images(plan, train.labels, self.task.classes)
        rows = torch.stack([checkpoint.row for checkpoint in checkpoints])
        cap = self.evaluated
        on_train = evaluate(stack, rows, train.pixels, seen.rows[:cap], seen.labels[:cap])
        tested = drawn_rows(len(test), cap)
        on_test = evaluate(stack, rows, test.pixels, tested, test.labels.numpy()[tested])
        finite = finite_rows(rows, self.dtype) & np.isfinite(on_train.loss) & np.isfinite(on_test.loss)
        constant = {"model": plan.model, "train_images": len(seen)}
        constant |= self.architecture.columns(plan.forward) | asdict(plan.hyperparameters)
        return {name: [value] * count for name, value in constant.items()} | {
            "step": [checkpoint.epoch for checkpoint in checkpoints],
            "updates": [checkpoint.updates for checkpoint in checkpoints],
            "train_loss": on_train.loss,
            "train_accuracy": on_train.accuracy,
            "test_loss": on_test.loss,
            "test_accuracy": on_test.accuracy,
            "diverged": (~finite).astype(np.int64),
        }
