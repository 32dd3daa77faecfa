"""Images as a zoo builder reads them: pixels, labels, and what identifies them."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from wsl.zoo._errors import ZooError


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images of one size.

    Args:
        pixels: ``(n, H, W)`` or ``(n, H, W, C)`` with C 1 or 3; unsigned integers of 8 or 16 bits, or
            floats in [0, 1].
        labels: ``(n,)`` integers, or ``None``.
        label_names: text of each label, if there is one.
        columns: further metadata of the images, ``(n,)`` each, which a zoo stores by these names.

    Raises:
        ZooError: another shape or type, no images, images under 2 x 2 pixels, values that are not finite or
            outside [0, 1], or another number of labels or of further metadata than of images.
    """

    pixels: np.ndarray
    labels: np.ndarray | None = None
    label_names: Sequence[str] = ()
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_pixels(self.pixels)
        if self.labels is not None and (
            self.labels.shape != (len(self.pixels),) or self.labels.dtype.kind not in "iu"
        ):
            raise ZooError(
                f"The labels have shape {self.labels.shape} and type {self.labels.dtype}, "
                f"expected one integer for each of the {len(self.pixels)} images."
            )
        for name, values in self.columns.items():
            if values.shape != (len(self.pixels),):
                raise ZooError(
                    f"The column {name} has shape {values.shape}, expected one value for each of the "
                    f"{len(self.pixels)} images."
                )

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def grid(self) -> tuple[int, int]:
        """``(H, W)``."""
        return self.pixels.shape[1], self.pixels.shape[2]

    @property
    def channels(self) -> int:
        return self.pixels.shape[3] if self.pixels.ndim == 4 else 1

    @property
    def identity(self) -> str:
        """Hash of shape, type, pixels and metadata: equal for equal data, wherever it was read from."""
        digest = hashlib.sha256()
        for array in (self.pixels, self.labels, *self.columns.values()):
            if array is not None:
                digest.update(f"{array.dtype.name} {array.shape};".encode())
                digest.update(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()[:32]

    def signals(self, rows: Sequence[int] | np.ndarray) -> Tensor:
        """Channels first, float32 in [0, 1]: ``(len(rows), C, H, W)``."""
        taken = self.pixels[np.asarray(rows)]
        scale = np.iinfo(taken.dtype).max if taken.dtype.kind == "u" else 1
        values = torch.from_numpy(taken.astype(np.float32) / np.float32(scale))
        return values[:, None] if values.ndim == 3 else values.permute(0, 3, 1, 2).contiguous()

    def inputs(self, rows: Sequence[int] | np.ndarray) -> Tensor:
        """As classifiers take them, in [-1, 1] as in the Small CNN Zoo: ``(len(rows), C, H, W)``."""
        return self.signals(rows).mul_(2).sub_(1)

    def limited(self, limit: int | None) -> "ImageSet":
        """At most ``limit`` images: the first, or even steps through images that are sorted by class.

        So each class keeps its share where the first images would be of the first classes alone.

        Raises:
            ZooError: a limit below 1.
        """
        if limit is not None and limit < 1:
            raise ZooError(f"limit is {limit}; it counts images and must be at least 1.")
        if limit is None or limit >= len(self):
            return self
        rows = np.arange(limit)
        if self.labels is not None and _is_sorted_by_class(self.labels):
            rows = rows * len(self) // limit
        labels = None if self.labels is None else self.labels[rows]
        columns = {name: values[rows] for name, values in self.columns.items()}
        return ImageSet(self.pixels[rows], labels, self.label_names, columns)


class ImageSource(ABC):
    """Where images come from; a builder calls :meth:`load` once."""

    @abstractmethod
    def load(self) -> ImageSet:
        """Read the images. Raises ZooError when they are missing or not what the class documents."""


def _is_sorted_by_class(labels: np.ndarray) -> bool:
    """Whether the images of each class follow one another, whatever the order of the classes."""
    return 1 + np.count_nonzero(labels[1:] != labels[:-1]) == len(np.unique(labels))


def _check_pixels(pixels: np.ndarray) -> None:
    if pixels.ndim not in (3, 4) or (pixels.ndim == 4 and pixels.shape[3] not in (1, 3)):
        raise ZooError(
            f"The images have shape {pixels.shape}, expected (n, H, W) for grayscale "
            "or (n, H, W, C) with C = 1 or 3. Move or add axes before building."
        )
    if len(pixels) == 0:
        raise ZooError("There are no images to fit: the source is empty.")
    if min(pixels.shape[1:3]) < 2:
        raise ZooError(
            f"The images are {pixels.shape[1]} x {pixels.shape[2]}, expected at least 2 x 2 pixels."
        )
    if pixels.dtype.kind == "u" and pixels.dtype.itemsize <= 2:
        return
    if pixels.dtype.kind != "f":
        raise ZooError(
            f"The images have type {pixels.dtype}, expected uint8, uint16, or floats in [0, 1]. "
            "Convert them so that the largest possible value is known."
        )
    axes = tuple(range(1, pixels.ndim))
    broken = np.flatnonzero(~np.isfinite(pixels).all(axes))
    if len(broken):
        raise ZooError(
            f"Image {broken[0]} holds NaN or infinite pixels ({len(broken)} of {len(pixels)} images do). "
            "Remove or repair these images."
        )
    low, high = float(pixels.min()), float(pixels.max())
    if low < 0 or high > 1:
        raise ZooError(
            f"The images have float values from {low:g} to {high:g}, expected [0, 1]. "
            "Divide by the largest possible value, or give uint8."
        )
