"""Inner steps of all lanes, and what their losses count for."""

from dataclasses import dataclass

import torch
from torch import Tensor

from wsl.learnopt._lanes import Lanes, restart, step_lanes
from wsl.learnopt._random import next_seeds
from wsl.learnopt._types import Tensors, lane_rows
from wsl.learnopt.estimators._objective import Objective
from wsl.learnopt.optimizers import Optimizer
from wsl.learnopt.tasks import Task
from wsl.learnopt.truncation import Truncation


@dataclass
class Unroll:
    """What ``K`` steps of ``L`` lanes came to.

    Attributes:
        lanes: where they are now.
        first: the first loss ``(L,)`` of the problem that each lane is on.
        counted: what the losses count for ``(K, L)``, of the parameters before each step; always finite.
        fresh: ``(K, L)`` bool, on a problem that was begun in this unroll.
        begun: the same after the last step ``(L,)``.
        carried: ``(L,)`` bool, the next step goes on with a problem that has had steps.
        gone: ``(L,)`` bool, has diverged and not begun another problem.
        ended, diverged: numbers of lanes that began another problem, counting each time.
        update_norm: norm of the last update as a share of the norm of the parameters, the mean over lanes
            where it is finite.
    """

    lanes: Lanes
    first: Tensor
    counted: Tensor
    fresh: Tensor
    begun: Tensor
    carried: Tensor
    gone: Tensor
    ended: int
    diverged: int
    update_norm: float

    def figures(self, copies: int = 1) -> dict[str, float]:
        """What an estimator reports, if each lane has ``copies``: lost lanes are counted once with them."""
        return {
            "loss": float(self.counted.detach().mean()),
            "ended": float(self.ended // copies),
            "diverged": float(self.diverged),
            "update_norm": self.update_norm,
            "dropped": 0.0,
        }


def unroll(
    task: Task,
    optimizer: Optimizer,
    lanes: Lanes,
    first: Tensor,
    steps: int,
    objective: Objective,
    truncation: Truncation | None,
    copies: int = 1,
) -> Unroll:
    """Advance lanes, differentiably where gradients are recorded.

    A lane that is at its horizon or has diverged begins another problem before the next step, whose seed is a
    hash of the last one; of ``copies`` of a lane, all do as soon as one does, so that they stay on common
    random numbers.

    Args:
        first: the lanes' first losses ``(L,)``; those of lanes at step 0 are not read.
        truncation: gives horizons of other problems; ``None`` goes on with the same to the end, where losses
            of a lane count as the bound from the step on where it diverges.
        copies: lanes ``l``, ``l + L / copies``, ... are copies of one.
    """
    counted: list[Tensor] = []
    fresh: list[Tensor] = []
    begun = torch.zeros_like(lanes.step, dtype=torch.bool)
    gone = begun
    ended = diverged = 0
    for _ in range(steps):
        before = lanes
        lanes, losses, finite = step_lanes(task, optimizer, before)
        known = torch.nan_to_num(losses.detach(), nan=1.0, posinf=1.0, neginf=1.0)
        first = torch.where(before.step == 0, known, first)
        lost = ~finite | ~(losses.detach() <= objective.limits(first)) | gone
        counted.append(objective.count(losses, lost, first, before.step, before.horizon))
        fresh.append(begun)
        norm = update_norm(before.params, lanes.params) if len(counted) == steps else 0.0
        diverged += int((lost & ~gone).sum())
        if truncation is None:
            gone = lost
            continue
        over = _any_copy(lost | (lanes.step >= lanes.horizon), copies)
        if bool(over.any()):
            ended += int((over & ~_any_copy(lost, copies)).sum())
            seeds = next_seeds(lanes.seeds)
            lanes = restart(task, optimizer, lanes, over, seeds, truncation.horizons(seeds))
            begun = begun | over
    rows = torch.stack(counted), torch.stack(fresh)
    return Unroll(lanes, first, *rows, begun, lanes.step > 0, gone, ended, diverged, norm)


def update_norm(before: Tensors, after: Tensors) -> float:
    """Mean over the lanes, where it is finite, of the norm of their change as a share of their norm."""
    with torch.no_grad():
        change = sum(lane_rows(after[name] - before[name]).square().sum(1) for name in before)
        size = sum(lane_rows(value).square().sum(1) for value in before.values())
        shares = (torch.as_tensor(change) / torch.as_tensor(size)).sqrt()
        finite = shares[shares.isfinite()]
        return float(finite.mean()) if len(finite) else 0.0


def _any_copy(which: Tensor, copies: int) -> Tensor:
    """``(L,)`` bool: whether it is so of any copy of the lane."""
    return which.view(copies, -1).any(0).repeat(copies)
