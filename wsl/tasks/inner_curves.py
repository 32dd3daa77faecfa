"""Curves of the trainings on held-out problems."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
from lightning.pytorch.loggers import WandbLogger
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from wsl._files import write_text
from wsl.tasks.learned_optimization import LearnedOptimization


class InnerCurves(pl.Callback):
    """Writes the mean loss at each inner step after each validation, and draws it over that of the first.

    ``inner_curves.csv`` has a column for each task, a row for each inner step; ``inner_curves.png`` shows the
    curves of the first validation of this process and of the last one, and goes to Weights & Biases, too.

    Args:
        folder: the run's.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._first: dict[str, np.ndarray] = {}

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not isinstance(pl_module, LearnedOptimization) or not trainer.is_global_zero:
            return
        curves = {name: values.float().cpu().numpy() for name, values in pl_module.curves.items()}
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        self._first = self._first or curves
        write_text(self.folder / "inner_curves.csv", _table(curves))
        picture = draw_curves(curves, self._first)
        picture.savefig(self.folder / "inner_curves.png", dpi=100)
        for log in trainer.loggers:
            if isinstance(log, WandbLogger):
                log.log_image("val/curves", [_pixels(picture)], step=trainer.global_step)


def draw_curves(curves: Mapping[str, np.ndarray], first: Mapping[str, np.ndarray]) -> Figure:
    """A panel for each task, with curves of ``(horizon,)`` losses of now and of the first time."""
    made = Figure(figsize=(5.5 * len(curves), 4), layout="constrained")
    FigureCanvasAgg(made)
    for axes, (name, losses) in zip(
        made.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True
    ):
        axes.plot(first[name], color="gray", linewidth=1, label="first validation")
        axes.plot(losses, color="C0", linewidth=1.5, label="last validation")
        if losses.min() > 0 and first[name].min() > 0:
            axes.set_yscale("log")
        axes.set_title(name)
        axes.set_xlabel("inner step")
        axes.set_ylabel("mean training loss, held-out seeds")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    return made


def _table(curves: Mapping[str, np.ndarray]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["step", *curves])
    for step, losses in enumerate(zip(*curves.values(), strict=True)):
        writer.writerow([step, *(f"{loss:.6g}" for loss in losses)])
    return text.getvalue()


def _pixels(picture: Figure) -> np.ndarray:
    canvas = picture.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]
