"""Where runs log to: CSV in their folder, and Weights & Biases, grouped by experiment."""

import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import wandb
from lightning.pytorch.loggers import CSVLogger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only

from wsl.cli.failures import CommandError

WANDB_MODES = ("offline", "online", "disabled")


def default_name() -> str:
    """The name of a run that was given none: the time, or in a sweep what Weights & Biases calls it."""
    sweep, run = os.environ.get("WANDB_SWEEP_ID"), os.environ.get("WANDB_RUN_ID")
    return f"{sweep}-{run}" if sweep and run else time.strftime("%Y%m%d-%H%M%S")


def experiment(name: str) -> str | None:
    """The experiment of a run's name: all before the last slash, or before a last number, as of a seed.

    ``None`` for a time.
    """
    if re.fullmatch(r"\d{8}-\d{6}", name):
        return None
    if "/" in name:
        return name.rpartition("/")[0]
    return re.sub(r"[-_.](seed|s|run)?[-_]?\d+$", "", name) or None


def metrics_log(folder: Path) -> CSVLogger:
    """Metrics as CSV in the run's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return CSVLogger(str(folder), name="metrics")


def wandb_log(
    folder: Path, command: str, name: str, group: str | None, best: Mapping[str, str]
) -> list[WandbLogger]:
    """A logger to Weights & Biases; none in other processes than the first, and if it is disabled.

    Offline unless ``WANDB_MODE`` says else or an agent runs a sweep. Its files lie in the run's folder. Where
    its own environment variables say something (``WANDB_PROJECT``, ``WANDB_ENTITY``, ``WANDB_NAME``,
    ``WANDB_JOB_TYPE`` and, without ``group``, ``WANDB_RUN_GROUP``), it holds.

    Args:
        folder: the run's.
        command: what it does, the type of the job.
        name: of the run.
        group: the experiment.
        best: metric -> ``min`` or ``max``, by which the summary keeps the best value.

    Raises:
        CommandError: it does not start.
    """
    mode = os.environ.setdefault("WANDB_MODE", "online" if "WANDB_SWEEP_ID" in os.environ else "offline")
    if mode not in WANDB_MODES:
        raise CommandError(f"WANDB_MODE is {mode!r}; it is one of {', '.join(WANDB_MODES)}.")
    if mode == "disabled" or getattr(rank_zero_only, "rank", 0) != 0:
        return []
    existed = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "wsl"),
            name=os.environ.get("WANDB_NAME", name),
            group=group or os.environ.get("WANDB_RUN_GROUP") or experiment(name),
            job_type=os.environ.get("WANDB_JOB_TYPE", command),
            dir=str(folder.resolve()),  # its own process stays in the folder where it began
            settings=wandb.Settings(silent=True, init_timeout=30),  # seconds until no network is an error
        )
    except Exception as err:  # wandb has several, and no common base
        if not existed:
            shutil.rmtree(folder, ignore_errors=True)  # nothing but what wandb began to write
        raise CommandError(
            f"Weights & Biases does not start with WANDB_MODE={mode} ({type(err).__name__}: {err}). "
            "Log in with `wandb login` and check the network, or train with WANDB_MODE=offline and upload "
            "later with `wandb sync`."
        ) from err
    run.define_metric("trainer/global_step")
    run.define_metric("*", step_metric="trainer/global_step", step_sync=True)
    for metric, way in best.items():
        run.define_metric(metric, step_metric="trainer/global_step", summary=way)
    return [WandbLogger(experiment=run)]
