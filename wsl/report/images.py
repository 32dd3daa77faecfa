"""Original images beside what a zoo's networks render."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wsl.report.canvas import figure, save


def plot_renderings(
    originals: np.ndarray, renderings: np.ndarray, titles: Sequence[str], path: Path, *, columns: int = 12
) -> Path:
    """A grid of pairs: each original above its rendering.

    Args:
        originals, renderings: ``(n, H, W[, C])`` in [0, 1].
        titles: one for each pair, e.g. its PSNR.
        path: the picture to write.
        columns: pairs in a row.
    """
    count = len(originals)
    rows = -(-count // columns)
    made = figure(columns * 0.9, rows * 2.1)
    panels = made.subplots(2 * rows, columns, squeeze=False)
    for axes in panels.flat:
        axes.axis("off")
    for i in range(count):
        row, column = divmod(i, columns)
        for offset, images in enumerate((originals, renderings)):
            axes = panels[2 * row + offset, column]
            axes.imshow(images[i], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            if offset == 0:
                axes.set_title(titles[i], fontsize=7)
    made.suptitle("originals above, renderings of their networks' weights below", fontsize="medium")
    return save(made, path)
