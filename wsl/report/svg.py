"""Charts as text: SVG that stands in a page and takes its colours from the page's style."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator

_WIDTH, _HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 10, 40
_MOST_POINTS = 2000  # of a scatter plot, evenly among all
_MOST_PLACES = 500  # of a line
_LOGARITHMIC = 20.0  # least ratio of the largest to the smallest value


class Line(NamedTuple):
    """A line of a chart: its places ``(n,)``, values ``(n,)``, colour, style and title."""

    x: np.ndarray
    y: np.ndarray
    color: str
    dashed: bool
    title: str


class _Scale(NamedTuple):
    """Maps values between ``low`` and ``high`` to pixels from ``start`` to ``stop``."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, values: np.ndarray | float) -> np.ndarray:
        low, high, v = self.low, self.high, np.asarray(values, dtype=np.float64)
        if self.log:
            low, high, v = np.log(low), np.log(high), np.log(v)
        return self.start + (v - low) / (high - low) * (self.stop - self.start)

    def ticks(self, whole: bool = False) -> list[float]:
        locator = LogLocator(subs=(1, 2, 5)) if self.log else MaxNLocator(5, integer=whole)
        found = locator.tick_values(self.low, self.high)
        slack = 1e-9 * (self.high - self.low)
        return [float(t) for t in found if self.low - slack <= t <= self.high + slack]


def line_chart(lines: Sequence[Line], x_label: str, y_label: str) -> str:
    """Lines over whole numbers; values that reach over more than a decade are drawn by their logarithm."""
    drawn = [line for line in lines if len(line.y)]
    values = np.concatenate([line.y for line in drawn])
    places = np.concatenate([line.x for line in drawn])
    log = bool(values.min() > 0 and values.max() > _LOGARITHMIC * values.min())
    x = _across(float(places.min()), float(places.max()))
    y = _upwards(float(values.min()), float(values.max()), log)
    shapes = []
    for line in drawn:
        kept = np.unique(np.linspace(0, len(line.x) - 1, _MOST_PLACES).round().astype(int))
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x(line.x[kept]), y(line.y[kept]), strict=True))
        dashes = ' stroke-dasharray="5 4" opacity=".75"' if line.dashed else ""
        if len(kept) == 1:
            shapes.append(_dots([(float(x(line.x[0])), float(y(line.y[0])))], line.color, 6, line.title))
        else:
            shapes.append(
                f'<polyline points="{points}" fill="none" stroke="{line.color}" stroke-width="1.8"{dashes}>'
                f"<title>{escape(line.title)}</title></polyline>"
            )
    return _frame(x, y, x_label, y_label, shapes, whole=True)


def scatter_chart(truth: np.ndarray, predicted: np.ndarray, means: np.ndarray, color: str, title: str) -> str:
    """Predicted against true numbers, the diagonal, and ``means`` ``(n, 2)``: mean prediction, mean truth."""
    both = np.concatenate([truth, predicted])
    low, high = float(both.min()), float(both.max())
    x, y = _across(low, high), _upwards(low, high, False)
    kept = np.unique(np.linspace(0, len(truth) - 1, min(_MOST_POINTS, len(truth))).round().astype(int))
    ends = [f"{float(scale(value)):.1f}" for value in (low, high) for scale in (x, y)]
    points = list(zip(x(truth[kept]).tolist(), y(predicted[kept]).tolist(), strict=True))
    averages = " ".join(f"{float(x(t)):.1f},{float(y(p)):.1f}" for p, t in means)
    shapes = [
        f'<path class="axis" d="M{ends[0]} {ends[1]}L{ends[2]} {ends[3]}" stroke-dasharray="3 3"/>',
        _dots(points, color, 4, title),
        f'<polyline class="means" points="{averages}"><title>mean truth of tenths</title></polyline>',
    ]
    return _frame(x, y, "true", "predicted", shapes)


def _across(low: float, high: float) -> _Scale:
    low, high = _spread(low, high)
    return _Scale(low, high, _LEFT, _WIDTH - _RIGHT)


def _upwards(low: float, high: float, log: bool) -> _Scale:
    if log:
        return _Scale(low * 0.9, high * 1.1, _HEIGHT - _BOTTOM, _TOP, log=True)
    low, high = _spread(low, high)
    margin = 0.04 * (high - low)
    return _Scale(low - margin, high + margin, _HEIGHT - _BOTTOM, _TOP)


def _spread(low: float, high: float) -> tuple[float, float]:
    """The same, or a little apart if they are equal."""
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _dots(points: Sequence[tuple[float, float]], color: str, size: float, title: str) -> str:
    path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
    return (
        f'<path d="{path}" stroke="{color}" stroke-width="{size}" stroke-linecap="round" opacity=".6">'
        f"<title>{escape(title)}</title></path>"
    )


def _frame(
    x: _Scale, y: _Scale, x_label: str, y_label: str, shapes: Sequence[str], whole: bool = False
) -> str:
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(y_label)}">']
    for tick in y.ticks():
        place = float(y(tick))
        parts.append(f'<path class="grid" d="M{_LEFT} {place:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{place + 4:.1f}" text-anchor="end">{tick:.4g}</text>')
    for tick in x.ticks(whole):
        place, bottom = float(x(tick)), _HEIGHT - _BOTTOM
        parts.append(f'<path class="grid" d="M{place:.1f} {bottom}v4"/>')
        parts.append(f'<text x="{place:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:.4g}</text>')
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    parts += [
        f'<path class="axis" d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}"/>',
        *shapes,
        f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>',
        "</svg>",
    ]
    return "".join(parts)
