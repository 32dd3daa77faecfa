"""Figures without a display."""

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


def figure(width: float, height: float) -> Figure:
    """A figure of this size in inches, drawn off-screen and known to no global state."""
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def save(made: Figure, path: Path) -> Path:
    """Write a figure, making its folder; returns ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made.savefig(path, dpi=150)
    return path
