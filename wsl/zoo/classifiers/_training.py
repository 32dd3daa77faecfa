"""What builds of classifier zoos share: their images, and stacks whose checkpoints have metadata."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.classifiers._architecture import Task
from wsl.zoo.classifiers._data import LabelledImages, labelled_images
from wsl.zoo.classifiers._plan import ClassifierPlan, images_seen
from wsl.zoo.classifiers._stack import ClassifierStack
from wsl.zoo.classifiers._train import evaluate, network_images, train_networks
from wsl.zoo.images import ImageSet, ImageSource
from wsl.zoo.training import Description, Population, StackTraining

P = TypeVar("P", bound=ClassifierPlan)
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
    given = source.load().limited(limit)
    tested = None if test_source is None else test_source.load().limited(limit)
    labels = [images.labels for images in (given, tested) if images is not None and images.labels is not None]
    classes = 1 + max((int(array.max()) for array in labels), default=0)
    train = labelled_images(given, classes, "training")
    if classes < 2:
        raise ZooError(
            "All images have the label 0, and classifiers tell two classes or more apart. Give images of "
            "more classes, or a larger limit."
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
class ClassifierTraining(StackTraining[P, ClassifierStack]):
    """Trains stacks of classifiers and describes their checkpoints; see :class:`StackTraining`."""

    images: TaskImages
    quality = "test_accuracy"

    def population(self, stacks: list[list[P]], name: Callable[[ForwardDefinition], str]) -> Population[P]:
        """The population of these stacks; ``name`` tells an architecture from the others."""
        return Population(
            stacks=stacks,
            name=name,
            example=lambda _: self.images.task.example(),
            examples=lambda plan: images_seen(plan, len(self.images.train)),
            train=self.train,
            unit="images",
            quality=lambda accuracy: f"{100 * accuracy:.1f} % right",
        )

    def rows(
        self, stack: ClassifierStack, plans: Sequence[P], advance: Callable[[int], None]
    ) -> list[Tensor]:
        trained = train_networks(stack, plans, self.images.train, self.images.task.classes, advance)
        return [torch.stack([checkpoint.row for checkpoint in own]) for own in trained]

    def describe(self, stack: ClassifierStack, plan: P, rows: Tensor) -> Description:
        train, test, cap = self.images.train, self.images.test, self.evaluated
        seen = network_images(plan, train.labels, self.images.task.classes)
        tested = drawn_rows(len(test), cap)
        updates = [seen.steps(epoch, plan.hyperparameters.batch_size) for epoch in plan.stored]
        return Description(
            evaluate(stack, rows, train.pixels, seen.rows[:cap], seen.labels[:cap]),
            evaluate(stack, rows, test.pixels, tested, test.labels.numpy()[tested]),
            {"train_images": len(seen), "updates": updates},
        )
