"""Problems that an optimizer learns to optimize on."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from wsl.data.base import BaseDataModule, DataError, Targets
from wsl.data.statistics import WeightStatistics
from wsl.learnopt.tasks import Task, TaskFamily
from wsl.spec import WeightSpec
from wsl.zoo import ForwardDefinition

_HELD_OUT = {"val": 2**62, "test": 2**62 + 2**61}  # where seeds begin; first seeds of training are below


class HeldOut(NamedTuple):
    """Held-out problems of one task: its index, and seeds ``(L,)``."""

    task: int
    seeds: Tensor


class MetaSteps:
    """Numbers of the meta-steps of an epoch, from where a resumed run stopped."""

    def __init__(self, steps: int) -> None:
        self.steps, self._start, self._given = steps, 0, 0

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[int]:
        start, self._start = self._start, 0
        for step in range(start, self.steps):
            self._given = step + 1
            yield step

    def state_dict(self) -> dict[str, int]:
        """How many numbers of the epoch were handed out."""
        return {"steps": self._given}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue behind these; a complete epoch starts from its front."""
        self._start = state["steps"] % self.steps


class ProblemDataModule(BaseDataModule):
    """A task whose problems an optimizer is trained on, meta-step by meta-step, and held-out ones of it.

    Training batches are numbers of meta-steps, as the lanes of a run outlive them; batches outside training
    are :class:`HeldOut`, the same in every run.

    Args:
        task: or a family of them.
        steps: meta-steps of an epoch, after which there is a validation and a checkpoint.
        held_out: problems of each task that validation trains on, and as many others for the test.
        horizon: inner steps of these.

    Raises:
        DataError: a number below 1; a resumed run used other problems.
    """

    def __init__(
        self, task: Task | TaskFamily, steps: int = 50, held_out: int = 16, horizon: int = 1000
    ) -> None:
        super().__init__()
        for name, value in (("steps", steps), ("held_out", held_out), ("horizon", horizon)):
            if value < 1:
                raise DataError(f"{name} is {value}; expected at least 1.")
        self.task, self.steps, self.held_out, self.horizon = task, steps, held_out, horizon

    @property
    def tasks(self) -> list[Task]:
        """The tasks of the family, or the only one."""
        return [self.task] if isinstance(self.task, Task) else list(self.task)

    def check(self, stage: str) -> None:
        if stage == "predict":
            raise DataError(
                "there is nothing to predict about problems.\n"
                "  Use the trained optimizer in a training of your own; `test` trains on held-out problems."
            )
        self.setup(stage)

    def __str__(self) -> str:
        return "these problems"

    def setup(self, stage: str) -> None:
        """Nothing to open."""

    @property
    def spec(self) -> WeightSpec:
        return self.tasks[0].spec

    @property
    def forward_definitions(self) -> list[tuple[WeightSpec, ForwardDefinition]]:
        raise self._no_networks()

    @property
    def statistics(self) -> WeightStatistics:
        raise self._no_networks()

    @property
    def classes(self) -> int:
        raise self._no_networks()

    @property
    def targets(self) -> Targets:
        raise self._no_networks()

    @property
    def fingerprint(self) -> str:
        """Of the tasks' specifications, initial weights and first batches, those of one problem each."""
        digest, seed = hashlib.sha256(), torch.zeros(1, dtype=torch.int64)
        for task in self.tasks:
            here = seed.to(task.device)
            digest.update(str(task.spec).encode())
            for value in _leaves((task.init(here), task.batch(here, here))):
                digest.update(value.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def train_dataloader(self) -> MetaSteps:
        return MetaSteps(self.steps)

    def val_dataloader(self) -> DataLoader[HeldOut]:
        return self._problems("val")

    def test_dataloader(self) -> DataLoader[HeldOut]:
        return self._problems("test")

    def state_dict(self) -> dict[str, Any]:
        names = ("fingerprint", "steps", "held_out", "horizon")
        return {name: getattr(self, name) for name in names}

    def _problems(self, split: str) -> DataLoader[HeldOut]:
        seeds = _HELD_OUT[split] + torch.arange(self.held_out)
        return DataLoader([HeldOut(index, seeds) for index in range(len(self.tasks))], batch_size=None)  # type: ignore[arg-type]

    def _no_networks(self) -> DataError:
        return DataError(
            "these data are problems to train on, not trained networks with labels.\n"
            "  Train wsl.tasks.LearnedOptimization on them, or give this task a zoo (wsl.data.ZooDataModule)."
        )


def _leaves(tree: Any) -> list[Tensor]:
    """The tensors of nested dictionaries, tuples and lists, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree
    return [leaf for part in parts for leaf in _leaves(part)]
