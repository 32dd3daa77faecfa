"""A blank page measured in inches, and the words that go on it. matplotlib is slow to import: do so late."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from wsl.spec import NodeSet, WeightSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#2b2b2b"
FAINT = "#8a8a8a"
FORWARD = "#5a6470"
BACKWARD = "#b5532d"
_INDEXED = re.compile(r"(.+)\[(\d+)\]")
_NAMED = re.compile(r"(?P<name>.+?)(?P<part>(\[[\d,]+\])?)")
_COLORS = (
    "#4c78a8", "#f2a33a", "#54a06b", "#d1605e", "#8e6bb0", "#3aa6a6", "#c97ba3", "#8d6f4f", "#a3a33d",
)  # fmt: skip
_SINGLE_COLOR = "#7f93ad"
_ENDS_COLOR = "#9aa0a6"
_MOST_PIXELS = 8000


def page(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of this size, known to no global state, with axes that are measured in inches from below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.axis("off")
    return figure, axes


def save(figure: Figure, path: Path) -> None:
    """Write a figure, making its folder; text stays text, and equal figures make equal files."""
    from matplotlib import rc_context

    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "wsl"}):
        figure.savefig(path, dpi=min(150, _MOST_PIXELS / max(figure.get_size_inches())), metadata=metadata)


def text_width(text: str, points: float) -> float:
    """Inches that a line of the default font takes, estimated upwards."""
    return len(text) * points * 0.0082


def node_colors(spec: WeightSpec) -> dict[str, str]:
    """A colour for each node set, that of its innermost axis; grey where neurons stay in place.

    If there are more axes than colours, they go to those that several node sets share, the most shared one
    having its own, as a residual stream; others look alike.
    """
    inner = {node.name: node.axes[-1] if node.axes else "" for node in spec.topology.nodes}
    hidden = [axis.name for axis in spec.hidden_axes]
    colors = dict(zip(hidden, _COLORS, strict=False))
    if len(hidden) > len(_COLORS):
        counts = Counter(inner.values())
        most = max(hidden, key=counts.__getitem__)
        shared = [name for name in hidden if counts[name] > 1 and name != most]
        colors = dict.fromkeys(hidden, _SINGLE_COLOR)
        colors |= {**dict(zip(shared, itertools.cycle(_COLORS[1:]), strict=False)), most: _COLORS[0]}
    return {name: colors.get(axis, _ENDS_COLOR) for name, axis in inner.items()}


def title(spec: WeightSpec, node: NodeSet) -> str:
    """``h1  64  relu`` or ``a  (h1 d1)  8x64``: name, axes and sizes, activation."""
    sizes = "x".join(str(spec.axes[name].size) for name in node.axes) or "1"
    of = f"({' '.join(node.axes)})" if node.axes != (node.name,) else ""
    return "  ".join(word for word in (node.name, of, sizes, node.activation) if word)


def join_keys(keys: Iterable[str]) -> list[str]:
    """Block keys in short: ``qkv[0,1,2]``."""
    parts: dict[str, list[str]] = {}
    for key in dict.fromkeys(keys):
        match = _INDEXED.fullmatch(key)
        parts.setdefault(match[1] if match else key, []).extend([match[2]] if match else [])
    return [name + (f"[{','.join(indices)}]" if indices else "") for name, indices in parts.items()]


def join_modules(spec: WeightSpec, keys: Iterable[str]) -> list[str]:
    """Block keys in short, with ``bn1.*`` or ``bn1.*[0]`` for all tensors of a module that has several."""
    listed = {
        key: (match["name"], match["part"]) for key in join_keys(keys) if (match := _NAMED.fullmatch(key))
    }
    joined = []
    for key, (name, part) in listed.items():
        module = name.rpartition(".")[0]
        tensors = {(other, part) for other in spec.tensors if other.rpartition(".")[0] == module}
        whole = module and len(tensors) > 1 and tensors <= set(listed.values())
        joined.append(f"{module}.*{part}" if whole else key)
    return list(dict.fromkeys(joined))
