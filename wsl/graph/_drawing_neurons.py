"""Every neuron of a small network as a circle, and every connection as a line."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

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
from wsl.spec import Edge, NodeSet, WeightSpec, edge_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 7.5
_LINE = 0.13
_GAP = 0.3
_MARGIN = 0.3
_ARC = 0.3
_ASIDE = 0.09
_HALO = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}


@dataclass
class _Placed:
    """A node set: what stands below it, and the places ``(n, 2)`` of its neurons."""

    label: list[str]
    points: np.ndarray


def draw_neurons(spec: WeightSpec, arrangement: Arrangement) -> Figure:
    """Layers from left to right; arrows over more than a layer, and back, run above, from set to set."""
    layer_of = arrangement.layer_of()
    placed = {
        node.name: _Placed(_label(spec, node, arrangement), np.zeros((_count(spec, node), 2)))
        for node in spec.topology.nodes
    }
    layers = [[placed[name] for name in layer] for layer in arrangement.layers]
    near = [arrow for arrow in arrangement.arrows if layer_of[arrow.target] - layer_of[arrow.source] == 1]
    far = [arrow for arrow in arrangement.arrows if arrow not in near]
    most = max(sum(len(node.points) for node in layer) for layer in layers)
    spacing = min(0.34, max(0.1, 6 / most))
    top = _place_rows(layers, spacing)
    width = _place_columns(layers, near, far, layer_of)
    heights = [
        top + 0.12 + _ARC * lane for lane in lanes([(layer_of[a.source], layer_of[a.target]) for a in far])
    ]
    figure, axes = page(width, max([top, *heights]) + _MARGIN)
    for arrow in near:
        _draw_lines(axes, arrow, placed, connections(spec, arrow))
    asides: Counter[tuple[str, int]] = Counter()
    for arrow, height in zip(far, heights, strict=True):
        out, into = ("out", layer_of[arrow.source]), ("into", layer_of[arrow.target])
        asides.update((out, into))
        radius = spacing * 0.34
        _draw_arc(axes, arrow, placed, radius, (asides[out] * _ASIDE, asides[into] * _ASIDE), height)
    colors = node_colors(spec)
    for name, node in placed.items():
        _draw_set(axes, node, colors[name], spacing)
    return figure


def connections(spec: WeightSpec, arrow: Arrow) -> np.ndarray:
    """``(k, 2)``: the nodes of source and target that some edge of the arrow connects."""
    sets = {node.name: node for node in spec.topology.nodes}
    linked = np.zeros((_count(spec, sets[arrow.source]), _count(spec, sets[arrow.target])), dtype=bool)
    for edge in spec.topology.edges:
        if (edge.source, edge.target) == (arrow.source, arrow.target):
            linked |= _agreement(spec, edge, sets[arrow.source], sets[arrow.target])
    return np.argwhere(linked)


def _agreement(spec: WeightSpec, edge: Edge, source: NodeSet, target: NodeSet) -> np.ndarray:
    """Which pairs agree on the axes that both sets carry and the block does not index at either end apart."""
    ends: dict[str, set[str]] = {}
    if edge.block is not None:
        block = spec.block(edge.block).block
        for dim, end in zip(block.neuron_dims, edge_ends(spec, edge), strict=True):
            ends.setdefault(block.axes[dim], set()).add(end)
    rows = [
        np.unravel_index(np.arange(_count(spec, node)), [spec.axes[axis].size for axis in node.axes] or [1])
        for node in (source, target)
    ]
    agree = np.ones((_count(spec, source), _count(spec, target)), dtype=bool)
    for axis in set(source.axes) & set(target.axes):
        if not ends.get(axis, set()) >= {"s", "t"}:
            at = rows[0][source.axes.index(axis)], rows[1][target.axes.index(axis)]
            agree &= at[0][:, None] == at[1][None]
    return agree


def _count(spec: WeightSpec, node: NodeSet) -> int:
    return math.prod(spec.axes[axis].size for axis in node.axes)


def _label(spec: WeightSpec, node: NodeSet, arrangement: Arrangement) -> list[str]:
    return [title(spec, node), *(f"+ {key}" for key in join_modules(spec, arrangement.held[node.name]))]


def _name(arrow: Arrow) -> list[str]:
    return join_keys(arrow.blocks) or ["identity"]


def _place_rows(layers: list[list[_Placed]], spacing: float) -> float:
    """Stack the sets of each layer around a common middle; returns the height of what is drawn."""
    heights = [[len(n.points) * spacing + len(n.label) * _LINE + _GAP for n in layer] for layer in layers]
    tallest = max(map(sum, heights)) - _GAP
    for layer, extents in zip(layers, heights, strict=True):
        top = _MARGIN + (tallest + sum(extents) - _GAP) / 2
        for node, extent in zip(layer, extents, strict=True):
            node.points[:, 1] = top - spacing * (np.arange(len(node.points)) + 0.5)
            top -= extent
    return _MARGIN + tallest


def _place_columns(
    layers: list[list[_Placed]], near: list[Arrow], far: list[Arrow], layer_of: dict[str, int]
) -> float:
    """Leave room between layers for labels and arcs; returns the width of the page."""
    x = half = 0.0
    for number, layer in enumerate(layers):
        last, half = half, max(text_width(line, _POINTS) for node in layer for line in node.label) / 2
        names = [line for a in near if layer_of[a.target] == number for line in _name(a)]
        between = max((text_width(line, _POINTS) for line in names), default=0.0)
        passing = sum(layer_of[a.target] == number for a in far) + sum(
            layer_of[a.source] == number - 1 for a in far
        )
        step = max(1.4, between + 0.6, last + half + 0.25) + passing * _ASIDE
        x = x + step if number else _MARGIN + half + passing * _ASIDE
        for node in layer:
            node.points[:, 0] = x
    leaving = sum(layer_of[a.source] == len(layers) - 1 for a in far)
    return x + max(half, 0.3 + leaving * _ASIDE) + _MARGIN


def _draw_set(axes: Axes, node: _Placed, color: str, spacing: float) -> None:
    x, y = node.points.T
    size = (spacing * 0.68 * 72) ** 2
    axes.scatter(
        node.points[:, 0],
        node.points[:, 1],
        s=size,
        color=color,
        edgecolors="white",
        linewidths=0.6,
        zorder=4,
    )
    for i, line in enumerate(node.label):
        below = y[-1] - spacing / 2 - (i + 0.6) * _LINE
        axes.text(
            x[-1], below, line, ha="center", va="center", fontsize=_POINTS, zorder=5 - i / 100,
            color=FAINT if i else INK, fontweight="normal" if i else "bold", bbox=_HALO,
        )  # fmt: skip


def _draw_lines(axes: Axes, arrow: Arrow, placed: dict[str, _Placed], pairs: np.ndarray) -> None:
    from matplotlib.collections import LineCollection

    source, target = placed[arrow.source].points, placed[arrow.target].points
    lines = np.stack([source[pairs[:, 0]], target[pairs[:, 1]]], axis=1)
    alpha = float(np.clip(6 / math.sqrt(len(pairs) + 1), 0.12, 0.7))
    style = "solid" if arrow.blocks else "dashed"
    axes.add_collection(
        LineCollection(list(lines), colors=FORWARD, linewidths=0.6, alpha=alpha, linestyles=style, zorder=1)
    )
    x, y = (source.mean(0) + target.mean(0)) / 2
    name = "\n".join(_name(arrow))
    axes.text(x, y, name, ha="center", va="center", fontsize=_POINTS, color=INK, zorder=6, bbox=_HALO)


def _draw_arc(
    axes: Axes,
    arrow: Arrow,
    placed: dict[str, _Placed],
    radius: float,
    asides: Sequence[float],
    height: float,
) -> None:
    """Up beside the source, across at ``height`` and down beside the target, to its first neuron."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    (x0, y0), (x1, y1) = placed[arrow.source].points[0], placed[arrow.target].points[0]
    up, down = x0 + radius + asides[0], x1 - radius - 0.1 - asides[1]
    points = [(x0, y0), (up, y0), (up, height), (down, height), (down, y1), (x1 - radius, y1)]
    color = BACKWARD if arrow.backward else FORWARD
    axes.add_patch(
        FancyArrowPatch(
            path=Path(points), arrowstyle="-|>", mutation_scale=7, color=color, linewidth=0.9,
            linestyle="solid" if arrow.blocks else (0, (4, 2)), zorder=3, joinstyle="round",
        )
    )  # fmt: skip
    axes.text(
        (up + down) / 2, height, ", ".join(_name(arrow)), ha="center", va="center", fontsize=_POINTS,
        color=color, zorder=6, bbox={**_HALO, "alpha": 1.0},
    )  # fmt: skip
