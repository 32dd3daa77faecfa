"""Callbacks of the command line's runs: a line an epoch, and tables of predictions."""

import csv
import io
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.loggers import WandbLogger
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from wsl._files import write_text

logger = logging.getLogger(__name__)


class EpochLog(pl.Callback):
    """Logs one line an epoch, where no progress bar can be drawn (the output is no terminal)."""

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.is_global_zero:
            shown = {name: value for name, value in trainer.callback_metrics.items() if "/" in name}
            figures = "  ".join(f"{name} {float(value):.4f}" for name, value in sorted(shown.items()))
            epochs = f"/{trainer.max_epochs}" if trainer.max_epochs != -1 else ""  # else steps limit the run
            logger.info("epoch %d%s  %s", trainer.current_epoch + 1, epochs, figures)


class PredictionTable(pl.Callback):
    """Writes what a task predicts: ``predictions.csv`` and, where the task gives them, ``embeddings.npy``.

    Tasks that predict nothing else get ``embeddings.csv`` with the columns ``row`` and ``label``. Tasks that
    give no labels make images: these are written to ``images.npz``, ordered by row.

    Columns: ``row``, ``label``, ``prediction`` and, where classes are predicted, a probability for each,
    ordered by row.
    Embeddings are float32 ``(n, features)`` in the same order. Meant for one process.

    Args:
        folder: is made if it does not exist.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._parts: list[dict[str, np.ndarray]] = []

    def on_predict_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._parts = []

    def on_predict_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, *args: Any
    ) -> None:
        arrays = {
            name: value.cpu().numpy() for name, value in outputs.items() if isinstance(value, torch.Tensor)
        }
        self._parts.append(arrays)

    def on_predict_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not self._parts:
            return
        table = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        order = np.argsort(table["rows"], kind="stable")
        table = {name: values[order] for name, values in table.items()}
        self.folder.mkdir(parents=True, exist_ok=True)
        if "labels" not in table:
            np.savez(self.folder / "images.npz", allow_pickle=False, **table)
            logger.info("wrote %s", self.folder / "images.npz")
            return
        if "embeddings" in table:
            np.save(self.folder / "embeddings.npy", table["embeddings"].astype(np.float32))
        predicts = "predictions" in table or "probabilities" in table
        path = self.folder / ("predictions.csv" if predicts else "embeddings.csv")
        write_text(path, _csv(table))  # last, and at once: who finds it finds everything
        logger.info("wrote %s", path)


class PictureLog(pl.Callback):
    """Writes the ``pictures`` of a task after each validation as one grid, and logs it to Weights & Biases.

    A row for each of them, as the task's ``picture_rows`` name them, a column a network. The file
    ``pictures.png`` holds the last grid, and the names of its rows as the text ``rows``.

    Args:
        folder: the run's.
    """

    def __init__(self, folder: str) -> None:
        self.path = Path(folder) / "pictures.png"

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        pictures = getattr(pl_module, "pictures", ())
        if trainer.sanity_checking or not trainer.is_global_zero or not pictures or trainer.state.fn != "fit":
            return
        grid = picture_grid([picture.float().numpy() for picture in pictures])
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows, about = ", ".join(getattr(pl_module, "picture_rows", ())), PngInfo()
        about.add_text("rows", rows)
        Image.fromarray(grid).save(self.path, pnginfo=about)
        for log in trainer.loggers:
            if isinstance(log, WandbLogger):
                log.log_image("val/pictures", [grid], step=trainer.global_step, caption=[rows])


def picture_grid(rows: Sequence[np.ndarray], zoom: int = 3) -> np.ndarray:
    """Images side by side, one below another: ``(height, width[, 3])`` uint8.

    Args:
        rows: ``(n, H, W)`` or ``(n, H, W, 3)`` each, in [0, 1]; beyond it they are cut.
        zoom: pixels for each of theirs.
    """
    space = [(0, 0), (1, 1), (1, 1)]
    padded = [np.pad(row, space + [(0, 0)] * (row.ndim - 3), constant_values=0.5) for row in rows]
    grid = np.concatenate([np.concatenate(list(row), axis=1) for row in padded])
    return (grid.clip(0, 1) * 255).round().astype(np.uint8).repeat(zoom, axis=0).repeat(zoom, axis=1)


def _csv(table: dict[str, np.ndarray]) -> str:
    """``row``, ``label`` and what is predicted: ``prediction``, of classes with a probability for each."""
    columns: dict[str, Iterable[Any]] = {"row": table["rows"], "label": table["labels"]}
    if (chances := table.get("probabilities")) is not None:
        columns["prediction"] = chances.argmax(1)
        columns |= {f"p{i}": [f"{share:.6g}" for share in shares] for i, shares in enumerate(chances.T)}
    elif "predictions" in table:
        columns["prediction"] = table["predictions"]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()
