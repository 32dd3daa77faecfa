"""Every node set of a large network as a box, and every connection between two as an arrow."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wsl.graph._arrange import Arrangement, Arrow, lanes
from wsl.graph._canvas import (
    BACKWARD,
    FAINT,
    FORWARD,
    INK,
    join_keys,
    join_modules,
    node_colors,
    page,
    text_width,
    title,
)
from wsl.spec import NodeSet, WeightSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 7.0
_LINE = 0.135
_PAD = 0.07
_BELOW = 0.24
_STUB = 0.08
_ASIDE = 0.22
_LANE = 0.13
_MARGIN = 0.25
_TALLEST = 11.0
_SHAPE = 1.5
_GUTTER = 0.8
_LONGEST = 56
_MOST_LINES = 6

Side = Literal["straight", "left", "right", "across"]


@dataclass
class _Box:
    """A node set's rectangle: what it says, its size and, once placed, its place; ``x`` is its middle."""

    title: str
    lines: list[str]
    layer: int
    column: int = 0
    x: float = 0.0
    top: float = 0.0
    width: float = field(init=False)
    height: float = field(init=False)

    def __post_init__(self) -> None:
        widths = [text_width(line, _POINTS) for line in self.lines]
        self.width = max([text_width(self.title, _POINTS + 1) * 1.1, *widths]) + 2 * _PAD
        self.height = (len(self.lines) + 1.25) * _LINE + 2 * _PAD

    @property
    def middle(self) -> float:
        return self.top - self.height / 2


@dataclass
class _Route:
    """How an arrow runs: straight down, by a lane beside its column, or across to another column."""

    arrow: Arrow
    source: _Box
    target: _Box
    side: Side
    lane: int = 0


def draw_summary(spec: WeightSpec, arrangement: Arrangement) -> Figure:
    """Layers from above to below, in as many columns as the page needs."""
    layer_of = arrangement.layer_of()
    boxes = {
        node.name: _Box(title(spec, node), _lines(spec, node, arrangement), layer_of[node.name])
        for node in spec.topology.nodes
    }
    layers = [[boxes[name] for name in layer] for layer in arrangement.layers]
    columns, height = _stack(layers)
    routes = _route(arrangement.arrows, boxes, layers)
    width, lane_x = _spread(columns, routes)
    figure, axes = page(width, height)
    colors = node_colors(spec)
    for name, box in boxes.items():
        _draw_box(axes, box, colors[name])
    for route in routes:
        _draw_route(axes, route, layers, lane_x)
    return figure


def _lines(spec: WeightSpec, node: NodeSet, arrangement: Arrangement) -> list[str]:
    """What makes a node set and what belongs to it, in lines that fit a box."""
    entries = []
    for arrow in arrangement.arrows:
        if arrow.target == node.name:
            source = "itself" if arrow.source == node.name else arrow.source
            entries.append(f"{', '.join(join_keys(arrow.blocks)) or 'identity'} from {source}")
    if held := join_modules(spec, arrangement.held[node.name]):
        entries.append(f"+ {', '.join(held)}")
    lines = [
        line
        for entry in entries
        for line in textwrap.wrap(
            entry, _LONGEST, subsequent_indent="     ", break_long_words=False, break_on_hyphens=False
        )
    ]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"… and {len(lines) - _MOST_LINES + 1} lines more"]
    return lines


def _stack(layers: list[list[_Box]]) -> tuple[list[list[list[_Box]]], float]:
    """Break the layers into columns, and place boxes in height and, around zero, in width."""
    tall = [max(box.height for box in layer) + _BELOW for layer in layers]
    wide = max(map(_width, layers)) + _GUTTER
    count = 1 if sum(tall) <= _TALLEST else max(1, round(math.sqrt(_SHAPE * sum(tall) / wide)))
    limit = 1.03 * max(sum(tall) / count, *tall)
    columns: list[list[list[_Box]]] = [[]]
    used = [0.0]
    for layer, extent in zip(layers, tall, strict=True):
        if used[-1] + extent / 2 > limit and columns[-1]:
            columns.append([])
            used.append(0.0)
        columns[-1].append(layer)
        used[-1] += extent
    height = max(used) - _BELOW + 2 * _MARGIN
    for number, column in enumerate(columns):
        top = height - _MARGIN
        for layer in column:
            x = -_width(layer) / 2
            for box in layer:
                box.column, box.x, box.top = number, x + box.width / 2, top
                x += box.width + _ASIDE
            top -= max(box.height for box in layer) + _BELOW
    return columns, height


def _width(layer: list[_Box]) -> float:
    return sum(box.width for box in layer) + _ASIDE * (len(layer) - 1)


def _route(arrows: Sequence[Arrow], boxes: dict[str, _Box], layers: list[list[_Box]]) -> list[_Route]:
    routes = []
    for arrow in arrows:
        source, target = boxes[arrow.source], boxes[arrow.target]
        side: Side = "straight"
        if source.column != target.column:
            side = "across"
        elif arrow.backward:
            side = "right"
        elif any(
            _hits(source, target, box) for layer in layers[source.layer + 1 : target.layer] for box in layer
        ):
            side = "left" if source.x <= 0 else "right"
        routes.append(_Route(arrow, source, target, side))
    groups: dict[tuple[object, ...], list[_Route]] = {}
    for route in routes:
        if route.side != "straight":
            groups.setdefault((_home(route), route.side), []).append(route)
    for group in groups.values():
        spans = [(route.source.middle, route.target.middle) for route in group]
        for route, lane in zip(group, lanes(spans), strict=True):
            route.lane = lane
    return routes


def _hits(source: _Box, target: _Box, box: _Box) -> bool:
    """Whether the straight way from ``source`` down to ``target`` would meet ``box`` between them."""
    start, end = source.top - source.height, target.top
    for y in (box.top, box.middle, box.top - box.height):
        x = source.x + (target.x - source.x) * (start - y) / max(start - end, 1e-9)
        if abs(x - box.x) < box.width / 2 + 0.05:
            return True
    return False


def _spread(columns: list[list[list[_Box]]], routes: list[_Route]) -> tuple[float, dict[int, float]]:
    """Move boxes to their place in width; returns the width of the page and where each lane runs."""

    def room(column: int, side: Side) -> float:
        used = [r.lane + 1 for r in routes if r.side == side and _home(r) == column]
        return max(used, default=0) * _LANE + (0.12 if used else 0.0)

    right = _MARGIN
    lane_x: dict[int, float] = {}
    for number, column in enumerate(columns):
        gutter = right + (0.2 if number else 0.0)
        left = gutter + room(number, "across") + room(number, "left")
        span = max(map(_width, column))
        for layer in column:
            for box in layer:
                box.x += left + span / 2
        right = left + span + room(number, "right")
        for route in routes:
            if _home(route) == number:
                ahead = (route.lane + 1) * _LANE
                lane_x[id(route)] = {
                    "across": gutter + ahead,
                    "left": left - ahead,
                    "right": left + span + ahead,
                    "straight": 0.0,
                }[route.side]
    return right + _MARGIN, lane_x


def _home(route: _Route) -> int:
    """The column beside which the lane of a route runs; across columns, left of the later one."""
    return max(route.source.column, route.target.column)


def _draw_box(axes: Axes, box: _Box, color: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    corner = (box.x - box.width / 2 + 0.03, box.top - box.height + 0.03)
    style = "round,pad=0.03,rounding_size=0.06"
    size = (box.width - 0.06, box.height - 0.06)
    axes.add_patch(
        FancyBboxPatch(corner, *size, boxstyle=style, facecolor="white", edgecolor="none", zorder=2)
    )
    axes.add_patch(
        FancyBboxPatch(
            corner, *size, boxstyle=style, facecolor=f"{color}2e", edgecolor=color, linewidth=1.2, zorder=3
        )
    )
    left, y = box.x - box.width / 2 + _PAD, box.top - _PAD - _LINE * 0.55
    axes.text(left, y, box.title, fontsize=_POINTS + 1, fontweight="bold", color=INK, va="center", zorder=4)
    for i, line in enumerate(box.lines):
        color = FAINT if line.startswith("+") else INK
        axes.text(left, y - (i + 1.1) * _LINE, line, fontsize=_POINTS, color=color, va="center", zorder=4)


def _draw_route(axes: Axes, route: _Route, layers: list[list[_Box]], lane_x: dict[int, float]) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    source, target = route.source, route.target
    if route.side == "straight":
        lean = target.x - source.x
        points = [
            (source.x + _within(lean, source), source.top - source.height),
            (target.x - _within(lean, target), target.top),
        ]
    else:
        x = lane_x[id(route)]
        points = [
            *_way_out(source, layers[source.layer], x),
            *reversed(_way_in(target, layers[target.layer], x)),
        ]
    axes.add_patch(
        FancyArrowPatch(
            path=Path(points),
            arrowstyle="-|>",
            mutation_scale=7,
            linewidth=0.9,
            color=BACKWARD if route.arrow.backward else FORWARD,
            linestyle="solid" if route.arrow.blocks else (0, (4, 2)),
            zorder=1,
            joinstyle="round",
        )
    )


def _way_out(box: _Box, layer: list[_Box], x: float) -> list[tuple[float, float]]:
    """From a box to the lane at ``x``: sideways, or below its layer if others stand between."""
    if _enclosed(box, layer, x):
        below = min(other.top - other.height for other in layer) - _STUB
        return [(box.x, box.top - box.height), (box.x, below), (x, below)]
    return [(_edge(box, x), box.middle - 0.05), (x, box.middle - 0.05)]


def _way_in(box: _Box, layer: list[_Box], x: float) -> list[tuple[float, float]]:
    """To a box from the lane at ``x``, backwards: sideways, or above its layer if others stand between."""
    if _enclosed(box, layer, x):
        return [(box.x, box.top), (box.x, box.top + _STUB), (x, box.top + _STUB)]
    return [(_edge(box, x), box.middle + 0.05), (x, box.middle + 0.05)]


def _enclosed(box: _Box, layer: list[_Box], x: float) -> bool:
    return any(min(box.x, x) < other.x < max(box.x, x) for other in layer if other is not box)


def _edge(box: _Box, x: float) -> float:
    return box.x + (box.width / 2 if x > box.x else -box.width / 2)


def _within(lean: float, box: _Box) -> float:
    return max(-0.3 * box.width, min(0.3 * box.width, 0.25 * lean))
