"""Checkpoints of trainings, for what learns from them."""

from typing import Any

import torch
from torch import Tensor

from wsl.learnopt._lanes import start, step_lanes
from wsl.learnopt._types import Tensors
from wsl.learnopt.optimizers import Optimizer
from wsl.learnopt.tasks import Task
from wsl.zoo import Zoo, ZooError


@torch.no_grad()
def record_trajectories(
    task: Task, optimizer: Optimizer, seeds: Tensor, every: int, checkpoints: int
) -> Tensors:
    """Train from the beginning, and keep the weights now and then: by name ``(L, checkpoints, *shape)``.

    Args:
        seeds: ``(L,)``, pick the problems.
        every: updates from one checkpoint to the next; the first one is the start.
        checkpoints: how many are kept.
    """
    lanes = start(task, optimizer, seeds, every * checkpoints)
    found = {name: [value] for name, value in lanes.params.items()}
    for step in range(every * (checkpoints - 1)):
        lanes = step_lanes(task, optimizer, lanes).lanes
        if (step + 1) % every == 0:
            for name, value in lanes.params.items():
                found[name].append(value)
    return {name: torch.stack(values, dim=1) for name, values in found.items()}


def zoo_trajectories(zoo: Zoo, models: list[Any]) -> Tensors:
    """The checkpoints of some models of a zoo, in the order of their steps: by name ``(L, T, *shape)``.

    Raises:
        ZooError: models with checkpoints at other steps, or no such model.
    """
    rows = [zoo.trajectory(model) for model in models]
    steps = [zoo.metadata["step"][own].tolist() for own in rows]
    if any(own != steps[0] for own in steps):
        raise ZooError(
            f"the models {models} have checkpoints at other steps each: {steps}; take some that agree."
        )
    parts = [zoo.weights(own) for own in rows]
    return {name: torch.stack([part[name] for part in parts]) for name in parts[0]}
