"""Changes of images that an editor of INRs learns to make by changing the weights."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from wsl.tasks.factories import TaskError


class Edit(ABC):
    """A change of images ``(B, H, W)`` or ``(B, H, W, C)`` with values in [0, 1], to the same shape."""

    @abstractmethod
    def __call__(self, images: np.ndarray) -> np.ndarray:
        """The changed images, in [0, 1]."""


@dataclass(frozen=True)
class Dilate(Edit):
    """Each pixel becomes the largest of its neighbourhood.

    Args:
        size: side of the square neighbourhood in pixels, an odd number.

    Raises:
        TaskError: a size that is even or below 3.
    """

    size: int = 3

    def __post_init__(self) -> None:
        _check_size(self, self.size)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        return ndimage.grey_dilation(images, _window(images, self.size), mode="nearest")


@dataclass(frozen=True)
class Erode(Edit):
    """Each pixel becomes the smallest of its neighbourhood; args and errors as of :class:`Dilate`."""

    size: int = 3

    def __post_init__(self) -> None:
        _check_size(self, self.size)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        return ndimage.grey_erosion(images, _window(images, self.size), mode="nearest")


@dataclass(frozen=True)
class StretchContrast(Edit):
    """Values from a low to a high percentile of each image spread over [0, 1]; beyond them they are cut off.

    Args:
        low, high: percentiles, ``0 <= low < high <= 100``.

    Raises:
        TaskError: percentiles outside of this.
    """

    low: float = 10.0
    high: float = 90.0

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 100:
            raise TaskError(f"low is {self.low} and high is {self.high}; expected 0 <= low < high <= 100.")

    def __call__(self, images: np.ndarray) -> np.ndarray:
        axes = tuple(range(1, images.ndim))
        low, high = np.percentile(images, [self.low, self.high], axis=axes, keepdims=True)
        return np.clip((images - low) / np.maximum(high - low, 1e-6), 0, 1)


@dataclass(frozen=True)
class Rotate(Edit):
    """Images turned about their centre, linearly interpolated; what comes from outside is the edge's value.

    Args:
        degrees: counted against the clock.
    """

    degrees: float = 30.0

    def __call__(self, images: np.ndarray) -> np.ndarray:
        turned = ndimage.rotate(images, self.degrees, axes=(1, 2), reshape=False, order=1, mode="nearest")
        return np.clip(turned, 0, 1)


@dataclass(frozen=True)
class Sharpen(Edit):
    """The image plus a share of its difference from a blurred one (unsharp mask), cut off at 0 and 1.

    Args:
        sigma: of the Gaussian blur in pixels, above 0.
        amount: of the difference.

    Raises:
        TaskError: a sigma that is not above 0.
    """

    sigma: float = 1.0
    amount: float = 1.0

    def __post_init__(self) -> None:
        if self.sigma <= 0:
            raise TaskError(f"sigma is {self.sigma}; expected one above 0, in pixels.")

    def __call__(self, images: np.ndarray) -> np.ndarray:
        widths = [0.0] * images.ndim
        widths[1:3] = [self.sigma] * 2
        blurred = ndimage.gaussian_filter(images, widths, mode="nearest")
        return np.clip(images + self.amount * (images - blurred), 0, 1)


def _check_size(edit: Edit, size: int) -> None:
    if size < 3 or size % 2 == 0:
        raise TaskError(f"{type(edit).__name__}: size is {size}; expected an odd number from 3 on.")


def _window(images: np.ndarray, size: int) -> tuple[int, ...]:
    return (1, size, size, *(1 for _ in images.shape[3:]))
