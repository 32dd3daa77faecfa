"""Trainings of many lanes, and what they come to."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wsl.learnopt import Objective, Optimizer, Task, Tensors, start, step_lanes

_BATCHES = 10
_BOUND = Objective(bound=10.0)


@dataclass(frozen=True)
class Measured:
    """Losses of ``L`` trainings; always finite.

    Where a training has diverged, that is where a loss is ten times its first one or not finite, all losses
    from then on count as ten times the first.

    Attributes:
        steps: updates before each evaluation; from 0 to the horizon.
        train, test: losses at these ``(K, L)``, means over batches that no step trains on; the same ones in
            every evaluation and for every optimizer.
        mean: over all steps, of the loss on the step's own batch before the update ``(L,)``.
        diverged: ``(L,)`` bool.
        seconds: of processor time that a step of a lane takes.
    """

    steps: tuple[int, ...]
    train: Tensor
    test: Tensor
    mean: Tensor
    diverged: Tensor
    seconds: float


def measure(
    task: Task,
    optimizer: Callable[[Sequence[int]], Optimizer],
    seeds: Tensor,
    horizon: int,
    points: int,
    lanes: int,
) -> Measured:
    """Train on the problems that ``seeds (L,)`` pick.

    Args:
        optimizer: from numbers of lanes to what trains these.
        points: evaluations, besides the one before the first step.
        lanes: at most so many at once.
    """
    parts = []
    for first in range(0, len(seeds), lanes):
        rows = range(first, min(first + lanes, len(seeds)))
        parts.append(_train(task, optimizer(rows), seeds[first : rows.stop], horizon, points))
    return Measured(
        parts[0].steps,
        torch.cat([part.train for part in parts], 1),
        torch.cat([part.test for part in parts], 1),
        torch.cat([part.mean for part in parts]),
        torch.cat([part.diverged for part in parts]),
        sum(part.seconds * part.train.shape[1] for part in parts) / len(seeds),
    )


@torch.no_grad()
def _train(task: Task, optimizer: Optimizer, seeds: Tensor, horizon: int, points: int) -> Measured:
    count = min(points, horizon)
    marks = sorted({round(point * horizon / count) for point in range(count + 1)})
    now = start(task, optimizer, seeds, horizon)
    first = task.values(now.params, task.batch(seeds, now.step))
    limits = _BOUND.limits(torch.nan_to_num(first, nan=1.0, posinf=1.0, neginf=1.0))
    lost, total, seconds = torch.zeros_like(seeds, dtype=torch.bool), torch.zeros_like(limits), 0.0
    found: dict[str, list[Tensor]] = {"train": [], "test": []}
    for step in range(horizon + 1):
        if step in marks:
            for split, begin in (("train", horizon), ("test", 0)):
                losses = _loss(task, now.params, seeds, split, begin)
                # A training that is to be lost at the next step is so already.
                found[split].append(torch.where(lost | ~(losses <= limits), limits, losses))
        if step == horizon:
            break
        begun = time.process_time()
        now, losses, finite = step_lanes(task, optimizer, now)
        seconds += time.process_time() - begun
        lost = lost | ~finite | ~(losses <= limits)
        total = total + torch.where(lost, limits, losses)
    train, test = (torch.stack(found[split]) for split in ("train", "test"))
    return Measured(tuple(marks), train, test, total / horizon, lost, seconds / horizon / len(seeds))


def _loss(task: Task, params: Tensors, seeds: Tensor, split: str, begin: int) -> Tensor:
    """``(L,)``: mean over the batches of steps from ``begin`` on."""
    losses = [
        task.values(params, task.batch(seeds, torch.full_like(seeds, step), split))
        for step in range(begin, begin + _BATCHES)
    ]
    return torch.stack(losses).mean(0)
