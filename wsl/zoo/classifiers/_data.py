"""Images that classifiers learn from, and what each network sees of them."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from wsl.zoo._errors import ZooError
from wsl.zoo.images import ImageSet


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
    """Bring images to [-1, 1], as in the Small CNN Zoo; raises ZooError without labels that fit."""
    if images.labels is None:
        raise ZooError(f"The {what} images have no labels, and classifiers need one for each.")
    low, high = int(images.labels.min()), int(images.labels.max())
    if low < 0 or high >= classes:
        raise ZooError(f"The {what} images have labels from {low} to {high}, expected 0 to {classes - 1}.")
    pixels = images.signals(np.arange(len(images))).mul_(2).sub_(1)
    return LabelledImages(pixels.permute(0, 2, 3, 1).contiguous(), torch.from_numpy(images.labels).long())


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
