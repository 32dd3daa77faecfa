"""Heat maps: means of a column over a grid of two others."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize, TwoSlopeNorm
from matplotlib.image import AxesImage

from wsl.report.canvas import figure, save
from wsl.report.errors import ReportError

_LOGARITHMIC = 50  # from this ratio of the largest to the smallest value on
_ANNOTATED = 150  # cells at most that show their values


@dataclass(frozen=True, eq=False)
class Heatmap:
    """Values over a grid.

    Args:
        x, y: ``(n,)`` and ``(m,)``, ascending.
        values: ``(m, n)`` float means, NaN where there are none; or text, "" where there is none.
    """

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray


def heatmap(x: np.ndarray, y: np.ndarray, values: np.ndarray) -> Heatmap:
    """Bring rows to a grid: the mean of numbers that are finite, the most frequent text.

    Args:
        x, y, values: ``(rows,)`` each.

    Raises:
        ReportError: no rows.
    """
    if not len(values):
        raise ReportError("there are no rows to draw. Choose others, or fewer conditions.")
    xs, column = np.unique(x, return_inverse=True)
    ys, line = np.unique(y, return_inverse=True)
    text = values.dtype.kind == "U"
    grid = np.full((len(ys), len(xs)), "" if text else np.nan, dtype=values.dtype if text else np.float64)
    for i in range(len(ys)):
        for j in range(len(xs)):
            found = values[(line == i) & (column == j)]
            if text and len(found):
                names, counts = np.unique(found, return_counts=True)
                grid[i, j] = names[counts.argmax()]
            elif not text and np.isfinite(found).any():
                grid[i, j] = found[np.isfinite(found)].mean()
    return Heatmap(xs, ys, grid)


def plot_heatmaps(maps: Mapping[str, Heatmap], x_name: str, y_name: str, path: Path) -> Path:
    """Draw heat maps beside one another; small ``y`` above, as in arXiv:2107.11228.

    Numbers of both signs have 0 in white; positive ones that differ much have logarithmic colours. A text has
    one colour in all maps.

    Args:
        maps: title -> map.
        x_name, y_name: what the axes are.
        path: the picture to write.
    """
    columns = min(4, len(maps))
    rows = -(-len(maps) // columns)
    made = figure(4.2 * columns, 3.6 * rows)
    panels = made.subplots(rows, columns, squeeze=False).flat
    texts = [drawn.values.flatten() for drawn in maps.values() if drawn.values.dtype.kind == "U"]
    names = [name for name in np.unique(np.concatenate(texts)).tolist() if name] if texts else []
    for (title, drawn), axes in zip(maps.items(), panels, strict=False):
        if drawn.values.dtype.kind == "U":
            _draw_text(axes, drawn, names)
        else:
            made.colorbar(_draw_numbers(axes, drawn), ax=axes, shrink=0.85)
        axes.set_title(title, fontsize="medium")
        axes.set_xticks(range(len(drawn.x)), [f"{value}" for value in drawn.x.tolist()], fontsize="small")
        axes.set_yticks(range(len(drawn.y)), [f"{value}" for value in drawn.y.tolist()], fontsize="small")
        axes.set_xlabel(x_name)
        axes.set_ylabel(y_name)
    for axes in panels:
        axes.axis("off")
    return save(made, path)


def _draw_numbers(axes: Axes, drawn: Heatmap) -> AxesImage:
    values, finite = drawn.values, drawn.values[np.isfinite(drawn.values)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    norm, colours = Normalize(low, high), "viridis"
    if low < 0 < high:
        limit = max(-low, high)
        norm, colours = TwoSlopeNorm(0, -limit, limit), "seismic"
    elif low > 0 and high > _LOGARITHMIC * low:
        norm = LogNorm(low, high)
    image = axes.imshow(values, norm=norm, cmap=colours, aspect="auto", interpolation="nearest")
    _annotate(axes, [[f"{value:.2g}" if np.isfinite(value) else "" for value in row] for row in values])
    return image


def _draw_text(axes: Axes, drawn: Heatmap, names: list[str]) -> None:
    numbers = np.full(drawn.values.shape, np.nan)
    for number, name in enumerate(names):
        numbers[drawn.values == name] = number
    axes.imshow(numbers, cmap="Pastel1", vmin=0, vmax=8, aspect="auto", interpolation="nearest")
    _annotate(axes, drawn.values.tolist())


def _annotate(axes: Axes, texts: list[list[str]]) -> None:
    if sum(map(len, texts)) <= _ANNOTATED:
        for i, row in enumerate(texts):
            for j, text in enumerate(row):
                box = {"facecolor": "white", "alpha": 0.55, "linewidth": 0, "pad": 0.8}
                axes.text(j, i, text, ha="center", va="center", fontsize=7, bbox=box if text else None)
