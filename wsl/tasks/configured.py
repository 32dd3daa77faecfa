"""`ConfiguredTask`: what every Lightning module shares that the command line builds from a configuration."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from wsl.data import BaseDataModule
from wsl.tasks.factories import Recipe, TaskError, describe, import_path, plain

OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]
ScheduleFactory = Callable[[Optimizer, int], LRScheduler]


class ConfiguredTask(pl.LightningModule):
    """A module whose checkpoints hold how it was configured, and whose resumed runs equal unbroken ones.

    Subclasses call :meth:`remember` in their constructor.

    Args:
        factories: classes, or ``functools.partial`` of one, by argument; checkpoints give a dict of
            ``class_path`` and ``init_args`` for each. There are an ``optimizer``, called with the parameters,
            and a ``schedule``, called with the optimizer and the number of steps, stepped every step.
    """

    metrics: tuple[str, ...] = ()
    """Names of what the task logs; none if it does not say."""
    bases: ClassVar[Mapping[str, type]] = {"optimizer": Optimizer, "schedule": LRScheduler}
    """What each factory is to make."""

    def __init__(self, **factories: Any) -> None:
        super().__init__()
        self._factories = factories
        for name, base in self.bases.items():
            if isinstance(self._factories[name], Mapping):  # from a checkpoint
                self._factories[name] = Recipe.from_dict(self._factories[name]).factory(base)
        self._recipes: dict[str, Recipe] = {}
        self._seed: int | None = None

    @abstractmethod
    def rehearse(self, data: BaseDataModule) -> None:
        """Build all that a run on ``data`` needs and drop it again; torch's random state stays as it is.

        Raises:
            TaskError: something does not accept its arguments, or the data.
        """

    def remember(self, **arguments: Any) -> None:
        """Keep the constructor's arguments as plain values: any checkpoint loads with ``weights_only``.

        They are the same whether the task is made in Python, by the command line or from a checkpoint.
        """
        stored: dict[str, Any] = {"class_path": import_path(type(self))}
        for name, value in arguments.items():
            if name in self._factories:
                self._recipes[name] = describe(name, self._factories[name])
                stored[name] = self._recipes[name].to_dict()
            else:
                stored[name] = plain(name, value)
        self.save_hyperparameters(stored)

    def on_fit_start(self) -> None:
        if self._seed is None:
            self._seed = torch.initial_seed()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Seed what the step draws (dropout) by its position: resumed runs equal unbroken ones."""
        assert self._seed is not None
        entropy = (self._seed, self.current_epoch, batch_idx, self.global_rank)
        torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1))

    def configure_optimizers(self) -> Any:
        optimizer = self._factories["optimizer"](self.parameters())
        steps = self.trainer.estimated_stepping_batches
        if steps == float("inf"):
            raise TaskError(
                "the learning-rate schedule needs the number of steps, but the run has no limit.\n"
                "  Set trainer.max_epochs or trainer.max_steps."
            )
        schedule = self._factories["schedule"](optimizer, int(steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
