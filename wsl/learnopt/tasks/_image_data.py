"""Images as tasks take them: small, standardised, indexed where the lanes are."""

import torch
from torch import Tensor

from wsl.zoo.images import ImageSet, ImageSource

_TEST_EVERY = 5
_BLOCK = 8192  # images that are resized at once


def labelled_images(
    train: ImageSource, test: ImageSource | None, size: tuple[int, int], limit: int | None
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Images ``(n, C, H, W)`` float32 and labels ``(n,)`` int64, of both splits.

    All are shifted and scaled alike, so that the training images have mean 0 and deviation 1.

    Args:
        test: without one, every fifth image of ``train`` is one to test on.
        size: ``(H, W)``, at most the images'.
        limit: images of each source at most, see :meth:`wsl.zoo.images.ImageSet.limited`.

    Raises:
        ZooError: a source cannot be read.
        ValueError: images without labels, or smaller than ``size``.
    """
    images, labels = _load(train, size, limit)
    if test is None:
        held = torch.arange(len(labels)) % _TEST_EVERY == _TEST_EVERY - 1
        images, labels, other, other_labels = images[~held], labels[~held], images[held], labels[held]
    else:
        other, other_labels = _load(test, size, limit)
    mean, deviation = images.double().mean(), images.double().std()
    images, other = ((part.double() - mean).div_(deviation).float() for part in (images, other))
    return (images, labels), (other, other_labels)


def area_resize(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Means over the parts of images ``(n, C, H, W)`` that each pixel of a smaller image covers.

    Pixels that lie across a border count by their share, so that ``H`` need not be a multiple.
    """
    for axis, pixels in zip((2, 3), size, strict=True):
        if images.shape[axis] != pixels:
            shares = _overlap(images.shape[axis], pixels).to(images)
            images = (images.movedim(axis, -1) @ shares.T).movedim(-1, axis)
    return images.contiguous()


def _overlap(old: int, new: int) -> Tensor:
    """``(new, old)``: the share of each new pixel that each old one has."""
    ends = torch.arange(1, new + 1, dtype=torch.float64)[:, None] * old / new
    places = torch.arange(old, dtype=torch.float64)
    covered = torch.minimum(ends, places + 1) - torch.maximum(ends - old / new, places)
    return covered.clamp(min=0) * new / old


def _load(source: ImageSource, size: tuple[int, int], limit: int | None) -> tuple[Tensor, Tensor]:
    images: ImageSet = source.load().limited(limit)
    if images.labels is None:
        raise ValueError(f"the images of {type(source).__name__} have no labels, which classifiers learn.")
    if images.grid[0] < size[0] or images.grid[1] < size[1]:
        raise ValueError(f"the images are {images.grid} and cannot be made {size}: they are only reduced.")
    parts = [
        area_resize(images.signals(range(begin, min(begin + _BLOCK, len(images)))), size)
        for begin in range(0, len(images), _BLOCK)
    ]
    return torch.cat(parts), torch.from_numpy(images.labels).long()
