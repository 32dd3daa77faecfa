"""Several tasks, from which lanes draw."""

from collections.abc import Sequence
from typing import overload

import torch
from torch import Generator

from wsl.learnopt.tasks._task import Task


class TaskFamily(Sequence[Task]):
    """Tasks, and how often each is drawn.

    Args:
        tasks: at least one.
        weights: in proportion to how often each is drawn; by default all alike.

    Raises:
        ValueError: no tasks, another number of weights, a negative weight or none above 0.
    """

    def __init__(self, tasks: Sequence[Task], weights: Sequence[float] | None = None) -> None:
        self.tasks = list(tasks)
        self.weights = [1.0] * len(self.tasks) if weights is None else list(map(float, weights))
        if not self.tasks or len(self.weights) != len(self.tasks):
            raise ValueError(
                f"a family has {len(self.tasks)} tasks and {len(self.weights)} weights: give at least one "
                "task and a weight for each."
            )
        if not (min(self.weights) >= 0 < sum(self.weights)):
            raise ValueError(f"the weights {self.weights} are no proportions: at least 0, not all 0.")

    def __len__(self) -> int:
        return len(self.tasks)

    @overload
    def __getitem__(self, index: int) -> Task: ...

    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...

    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        return self.tasks[index]

    def sample(self, count: int, generator: Generator) -> list[tuple[int, int]]:
        """Draw a task for each of ``count`` lanes: index and number of lanes of each task that has any."""
        weights = torch.tensor(self.weights, dtype=torch.float64)
        drawn = torch.multinomial(weights, count, replacement=True, generator=generator)
        numbers = drawn.bincount(minlength=len(self)).tolist()
        return [(index, number) for index, number in enumerate(numbers) if number]
