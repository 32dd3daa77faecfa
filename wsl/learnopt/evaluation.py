"""How well an optimizer trains on given problems."""

from dataclasses import dataclass

import torch
from torch import Tensor

from wsl.learnopt._lanes import start
from wsl.learnopt.estimators import Objective
from wsl.learnopt.estimators._unroll import unroll
from wsl.learnopt.optimizers import Optimizer
from wsl.learnopt.tasks import Task

_FINAL_BATCHES = 10


@dataclass(frozen=True)
class Trainings:
    """What trainings on ``L`` problems came to; always finite.

    Attributes:
        losses: of the parameters before each inner step ``(horizon, L)``, on that step's training batch.
        final: of the parameters after the horizon ``(L,)``, the mean over the next ten training batches.
        diverged: whether the training did ``(L,)`` bool.
    """

    losses: Tensor
    final: Tensor
    diverged: Tensor


@torch.no_grad()
def evaluate(task: Task, optimizer: Optimizer, seeds: Tensor, horizon: int, bound: float = 10.0) -> Trainings:
    """Train on the problems that ``seeds (L,)`` pick.

    Args:
        horizon: inner steps.
        bound: multiple of its first loss that every loss of a training counts as from the step on where it
            exceeds it or is not finite.
    """
    optimizer, objective = optimizer.on(task.spec), Objective(bound)
    lanes = start(task, optimizer, seeds, horizon)
    ran = unroll(task, optimizer, lanes, torch.zeros(len(seeds)), horizon, objective, None)
    batches = range(horizon, horizon + _FINAL_BATCHES)
    final = torch.stack(
        [task.values(ran.lanes.params, task.batch(seeds, torch.full_like(seeds, step))) for step in batches]
    ).mean(0)
    limits = objective.limits(ran.first)
    diverged = ran.gone | ~(final <= limits)
    return Trainings(ran.counted, torch.where(diverged, limits, final), diverged)
