"""Images that classifiers learn from, and what each network sees of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wsl.zoo._errors import ZooError
from wsl.zoo.classifiers._architecture import Task
from wsl.zoo.images import ImageSet, ImageSource

_TESTED_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images as networks take them.

    Args:
        pixels: ``(n, H, W, C)`` in [-1, 1].
        labels: ``(n,)`` int64 from 0 on.
    """

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


def labelled_images(images: ImageSet, classes: int, what: str) -> LabelledImages:
    """Images as networks take them; raises ZooError without labels that fit."""
    if images.labels is None:
        raise ZooError(f"The {what} images have no labels, and classifiers need one for each.")
    low, high = int(images.labels.min()), int(images.labels.max())
    if low < 0 or high >= classes:
        raise ZooError(f"The {what} images have labels from {low} to {high}, expected 0 to {classes - 1}.")
    pixels = images.inputs(np.arange(len(images)))
    return LabelledImages(pixels.permute(0, 2, 3, 1).contiguous(), torch.from_numpy(images.labels).long())


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


class NetworkImages:
    """The training images of one network, their labels, and the order in which it sees them.

    Args:
        labels: ``(n,)`` of all training images.
        classes: of the labels.
        fraction: share of the images that this network has, at least one.
        noise: share of these whose label is drawn anew from all classes.
        generator: of the choice, the noise and the order.
    """

    def __init__(
        self, labels: Tensor, classes: int, fraction: float, noise: float, generator: np.random.Generator
    ) -> None:
        count = max(1, round(fraction * len(labels)))
        self.rows = generator.permutation(len(labels))[:count]
        self.labels = labels.numpy()[self.rows]
        changed = generator.permutation(count)[: round(noise * count)]
        self.labels[changed] = generator.integers(0, classes, len(changed))
        self._generator = generator
        self._waiting = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def next_batch(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the next ``size`` images and their labels, both ``(size,)``, in a new order every epoch."""
        while len(self._waiting) < size:
            self._waiting = np.concatenate([self._waiting, self._generator.permutation(len(self))])
        taken, self._waiting = self._waiting[:size], self._waiting[size:]
        return self.rows[taken], self.labels[taken]

    def steps(self, epochs: int, batch_size: int) -> int:
        """Steps until this many epochs are over."""
        return -(-epochs * len(self) // batch_size)
