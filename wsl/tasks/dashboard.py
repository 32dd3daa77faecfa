"""What runs show on Weights & Biases beyond their metrics: artifacts, plots of outcomes, histograms."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
import wandb
from lightning.pytorch.loggers import WandbLogger
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from wsl.data import ZooDataModule
from wsl.tasks.callbacks import picture_grid
from wsl.tasks.invariant import InvariantTask

_PLOTTED = ("labels", "probabilities", "predictions", "before", "wanted", "after")
_MOST_CLASSES = 100  # whose confusions are plotted
_MOST_POINTS = 5000  # of a scatter plot
_MOST_PICTURES = 8


class OutcomePlots(pl.Callback):
    """Plots what a test or a prediction comes to: a confusion matrix, a scatter plot, or pictures.

    Of the rows in one process; test and predict with one.
    """

    def __init__(self) -> None:
        self._parts: list[dict[str, np.ndarray]] = []
        self._outputs: Tensor | None = None
        self._hook: RemovableHandle | None = None

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._parts = []
        if isinstance(pl_module, InvariantTask) and wandb_runs(trainer):
            assert pl_module.head is not None
            self._hook = pl_module.head.register_forward_hook(self._keep)

    def on_test_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, *args: Any
    ) -> None:
        if self._outputs is not None:
            assert isinstance(pl_module, InvariantTask)
            self._add({"labels": batch.labels, **pl_module.read_out(self._outputs)})
            self._outputs = None

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self._plot(trainer, "test")

    def on_predict_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._parts = []

    def on_predict_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, *args: Any
    ) -> None:
        if wandb_runs(trainer) and isinstance(outputs, Mapping):
            self._add({name: value for name, value in outputs.items() if name in _PLOTTED})

    def on_predict_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._plot(trainer, "predict")

    def _keep(self, module: nn.Module, inputs: Any, outputs: Tensor) -> None:
        self._outputs = outputs.detach()

    def _add(self, found: Mapping[str, Tensor]) -> None:
        self._parts.append({name: value.float().cpu().numpy() for name, value in found.items()})

    def _plot(self, trainer: pl.Trainer, stage: str) -> None:
        if not self._parts:
            return
        table = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        self._parts = []
        for run in wandb_runs(trainer):
            run.log(outcome_plots(table, stage))


class Histograms(pl.Callback):
    """Logs histograms of each parameter's weights and gradients, and their norms, every so many steps.

    Under ``weights/``, ``gradients/`` and ``norms/``. Gradients are those before any clipping.

    Args:
        every: steps from one to the next.
    """

    def __init__(self, every: int) -> None:
        self.every = every

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        runs = wandb_runs(trainer)
        if not runs or trainer.global_step % self.every:
            return
        logged: dict[str, Any] = {}
        norms: dict[str, list[float]] = {"weights": [], "gradients": []}
        for name, parameter in pl_module.named_parameters():
            for kind, value in (("weights", parameter.detach()), ("gradients", parameter.grad)):
                if value is not None and bool(value.isfinite().all()):
                    numbers = value.detach().float().cpu().numpy()
                    logged[f"{kind}/{name}"] = wandb.Histogram(np_histogram=np.histogram(numbers, 32))
                    norms[kind].append(float(np.linalg.norm(numbers)))
        for kind, found in norms.items():
            if found:
                logged[f"norms/{kind}"] = float(np.linalg.norm(found))
                logged[f"norms/{kind} of each"] = wandb.Histogram(np_histogram=np.histogram(found, 32))
        for run in runs:
            run.log({**logged, "trainer/global_step": trainer.global_step})


def log_start(trainer: pl.Trainer, task: pl.LightningModule, name: str, config: str) -> None:
    """Log what training starts from as artifacts: the configuration, the zoo and the specifications.

    Zoos are references to their files, which are neither read nor uploaded. The number of parameters joins
    the run's hyperparameters.

    Args:
        name: of the run.
        config: its configuration as text.
    """
    parameters = sum(p.numel() for p in task.parameters() if p.requires_grad)
    for log in trainer.loggers:
        log.log_hyperparams({"parameters": parameters})
    data = getattr(trainer, "datamodule", None)
    for run in wandb_runs(trainer):
        _log_text(run, f"config-{name}", "config", "config.yaml", config)
        if isinstance(data, ZooDataModule):
            specs = "\n\n".join(map(str, data.zoos.specs)) + "\n"
            digest = hashlib.sha256(specs.encode()).hexdigest()
            _log_text(run, f"spec-{digest[:12]}", "spec", "spec.txt", specs)
            _log_zoo(run, data)


def outcome_plots(table: Mapping[str, np.ndarray], stage: str) -> dict[str, Any]:
    """Plots of the entries of a table of predictions, by the names under which they are logged."""
    if "probabilities" in table:
        labels, chances = table["labels"].astype(np.int64), table["probabilities"]
        names = [str(c) for c in range(chances.shape[1])]
        if len(names) > _MOST_CLASSES:
            return {}
        plot = wandb.plot.confusion_matrix(
            y_true=labels.tolist(), preds=chances.argmax(1).tolist(), class_names=names, title="Confusions"
        )
        return {f"{stage}/confusion": plot}
    if "predictions" in table:
        count = len(table["labels"])
        kept = np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(int))
        pairs = np.stack([table["labels"][kept], table["predictions"][kept]], axis=1).tolist()
        points = wandb.Table(columns=["true", "predicted"], data=pairs)
        return {f"{stage}/scatter": wandb.plot.scatter(points, "true", "predicted", "Predicted against true")}
    if {"before", "wanted", "after"} <= table.keys():
        rows = [table[name][:_MOST_PICTURES] for name in ("before", "wanted", "after")]
        return {f"{stage}/pictures": wandb.Image(picture_grid(rows), caption="before, as wanted, after")}
    return {}


def wandb_runs(trainer: pl.Trainer) -> list[Any]:
    """The runs of Weights & Biases that a trainer logs to, in its first process."""
    if not trainer.is_global_zero:
        return []
    return [log.experiment for log in trainer.loggers if isinstance(log, WandbLogger)]


def _log_text(run: Any, name: str, kind: str, path: str, text: str) -> None:
    artifact = wandb.Artifact(_allowed(name), type=kind)
    with artifact.new_file(path, encoding="utf-8") as file:
        file.write(text)
    run.log_artifact(artifact)


def _log_zoo(run: Any, data: ZooDataModule) -> None:
    paths = [Path(path).resolve() for path in data.paths]
    about = {"fingerprint": data.fingerprint, "paths": [str(path) for path in paths]}
    artifact = wandb.Artifact(_allowed(f"zoo-{data.fingerprint[:12]}"), type="zoo", metadata=about)
    for i, path in enumerate(paths):
        artifact.add_reference(path.as_uri(), name=f"{i}-{path.name}", checksum=False)
    run.log_artifact(artifact)


def _allowed(name: str) -> str:
    """The name with other characters than those that artifacts may be called by replaced."""
    return re.sub(r"[^\w.-]", "-", name, flags=re.ASCII)[:128]
