"""Gray images in random colours."""

from dataclasses import dataclass

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo.images._set import ImageSet, ImageSource

_COLUMNS = ("red", "green", "blue", "background_red", "background_green", "background_blue")
# Least distance between the colours of one image, so that what it shows can be seen.
_CONTRAST = 0.6
_BLOCK = 1024


@dataclass(frozen=True)
class Coloured(ImageSource):
    """The images of a gray source, each between two colours: ``background + gray * (colour - background)``.

    Both are uniform in the RGB cube, among pairs that are far enough apart, and say nothing of the label.
    Pixels have 8 bits a channel. A zoo stores the colours as the columns ``red``, ``green``, ``blue`` (where
    the gray image is white), ``background_red``, ``background_green`` and ``background_blue``.

    Args:
        source: the gray images.
        seed: of the colours. Those of an image depend on this and on its number alone.

    Raises:
        ZooError: on loading, when the source's images have colours already.
    """

    source: ImageSource
    seed: int = 0

    def load(self) -> ImageSet:
        if self.seed < 0:
            raise ZooError(f"seed is {self.seed}; colours are drawn from 0 or more.")
        images = self.source.load()
        if images.channels != 1:
            raise ZooError(
                f"{type(self.source).__name__} has images of {images.channels} channels, and only gray ones "
                "can be coloured. Leave Coloured out."
            )
        colours = np.stack([_draw_pair(self.seed, image) for image in range(len(images))])
        pixels = np.empty((len(images), *images.grid, 3), dtype=np.uint8)
        for start in range(0, len(images), _BLOCK):
            rows = range(start, min(start + _BLOCK, len(images)))
            gray = images.signals(rows).numpy()[:, 0, :, :, None]
            front, back = (colours[rows, which, None, None] for which in (0, 1))
            pixels[rows] = np.rint(255 * (back + gray * (front - back)))
        columns = dict(zip(_COLUMNS, colours.reshape(-1, 6).T.copy(), strict=True))
        return ImageSet(pixels, images.labels, images.label_names, {**images.columns, **columns})


def _draw_pair(seed: int, image: int) -> np.ndarray:
    """Colour and background of an image, ``(2, 3)`` float32 in [0, 1]."""
    generator = np.random.default_rng([seed, image])
    while True:
        pair = generator.random((2, 3), dtype=np.float32)
        if np.linalg.norm(pair[0] - pair[1]) >= _CONTRAST:
            return pair
