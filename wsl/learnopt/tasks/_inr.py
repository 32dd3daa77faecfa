"""Coordinate networks that learn an image."""

from collections.abc import Sequence
from functools import partial

from torch import Tensor
from torch.nn import functional as F

from wsl.learnopt._random import integers, key_of
from wsl.learnopt._types import Tensors
from wsl.learnopt.tasks._module_task import BATCH, ModuleTask, check_split, stacked_layers, take
from wsl.models import Siren, coordinate_grid
from wsl.zoo.images import DigitsImages, ImageSource

_IMAGE = 0x696D616765


class InrFitting(ModuleTask):
    """Mean squared error of a :class:`wsl.models.Siren` that learns one image from random pixels of it.

    Pixels run from -1 to 1. Problems differ in initial parameters, in the image, and in the pixels of each
    step. The split ``test`` has all pixels of the image.

    Args:
        source: the images; by default scikit-learn's digits.
        hidden: widths of the hidden layers.
        w0: factor inside the sines.
        batch_size: pixels of a step, drawn with replacement.
        limit: images at most, see :meth:`wsl.zoo.images.ImageSet.limited`.
    """

    def __init__(
        self,
        source: ImageSource | None = None,
        hidden: Sequence[int] = (32, 32),
        w0: float = 30.0,
        batch_size: int = 64,
        limit: int | None = None,
    ) -> None:
        images = (source or DigitsImages()).load().limited(limit)
        signals = images.signals(range(len(images))).flatten(2).mT.contiguous() * 2 - 1
        grid = coordinate_grid(images.grid)
        make = partial(Siren, 2, tuple(hidden), images.channels, w0)
        super().__init__(make, F.mse_loss, (grid, signals[0]), None, batch_size, ceiling=100.0)
        self.data = {"grid": grid, "images": signals}

    def image(self, seeds: Tensor) -> Tensor:
        """``(L,)``: numbers of the images of these problems."""
        return integers(key_of(seeds, _IMAGE), 1, len(self.data["images"]))[:, 0]

    def batch(self, seeds: Tensor, step: Tensor, split: str = "train") -> tuple[Tensor, Tensor]:
        """Coordinates ``(L, n, 2)`` and pixels ``(L, n, channels)``."""
        check_split(split)
        grid, images = self.data["grid"], self.data["images"]
        number, pixels = self.image(seeds), len(grid)
        if split == "test":
            return grid.expand(len(seeds), -1, -1), take(images, number)
        rows = integers(key_of(seeds, BATCH), self.batch_size, pixels, step * self.batch_size)
        return take(grid, rows), take(images.flatten(0, 1), rows + number[:, None] * pixels)

    def values(self, params: Tensors, batch: tuple[Tensor, Tensor]) -> Tensor:
        assert isinstance(self.module, Siren)
        points, wanted = batch
        signals = stacked_layers(params, self.module.sines, points)
        return (signals - wanted.mT).square().mean((1, 2))
