"""What training costs: processor time, networks, memory. Validation and start-up are not counted."""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl

from wsl._files import write_text
from wsl.data import MixedBatch, WeightBatch


class Meter(pl.Callback):
    """Adds up processor time and networks of training, and writes them to a JSON file when it ends.

    Entries: ``seconds`` (processor time of this process: reading, augmentation, steps), ``steps``,
    ``networks``, ``epochs`` (with a fraction), ``parameters`` (trained ones), ``peak_mb``. Checkpoints carry
    the sums, so that a resumed run counts what the unbroken one would, and nothing twice.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._sums: dict[str, float] = {"seconds": 0.0, "steps": 0, "networks": 0}
        self._mark: float | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._mark = time.process_time()

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: WeightBatch | MixedBatch,
        *args: Any,
    ) -> None:
        self._count()
        self._sums["steps"] += 1
        self._sums["networks"] += len(batch.rows)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._count()
        self._mark = None

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._mark = time.process_time()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        parameters = sum(p.numel() for p in pl_module.parameters() if p.requires_grad)
        epochs = self._sums["steps"] / trainer.num_training_batches
        found = {**self._sums, "epochs": epochs, "parameters": parameters, "peak_mb": peak_memory()}
        write_text(self.path, json.dumps(found, indent=1) + "\n")

    def state_dict(self) -> dict[str, Any]:
        return dict(self._sums)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._sums = dict(state_dict)

    def _count(self) -> None:
        if self._mark is not None:
            now = time.process_time()
            self._sums["seconds"] += now - self._mark
            self._mark = now


class Measured(Exception):  # noqa: N818 (it is no error)
    """Ends a run whose only purpose was to be timed.

    Args:
        seconds: processor time of a step.
        batches: steps of an epoch.
    """

    def __init__(self, seconds: float, batches: int) -> None:
        super().__init__(f"{seconds:.3g} s a step, {batches} steps an epoch")
        self.seconds, self.batches = seconds, batches


class StepTimer(pl.Callback):
    """Times training steps and then raises :class:`Measured`, so that nothing is written or kept.

    Args:
        seconds: processor time to spend at least, if ``most`` steps do not end it sooner.
        least, most: numbers of steps that are timed.
        skip: first steps, which set things up and are not timed.
    """

    def __init__(self, seconds: float = 0.0, least: int = 3, most: int = 1000, skip: int = 2) -> None:
        self.seconds, self.least, self.most, self.skip = seconds, least, most, skip
        self._seen, self._start = 0, 0.0

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any) -> None:
        self._seen += 1
        if self._seen <= self.skip:
            self._start = time.process_time()
            return
        timed, spent = self._seen - self.skip, time.process_time() - self._start
        if timed >= self.most or (timed >= self.least and spent >= self.seconds):
            raise Measured(spent / timed, int(trainer.num_training_batches))


def peak_memory() -> float:
    """The most memory that this process has had in use, in MB (2**20 bytes)."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
