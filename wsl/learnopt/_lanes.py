"""Lanes: many trainings of one architecture, each on a problem of its own, that advance in one step."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from wsl.learnopt._random import next_seeds
from wsl.learnopt._types import State, Tensors, lane_rows, map_state
from wsl.learnopt.optimizers import Optimizer
from wsl.learnopt.tasks import Task


@dataclass(frozen=True)
class Lanes:
    """Where ``L`` trainings stand.

    Args:
        params: by name ``(L, *shape)``.
        state: of the optimizer.
        step: ``(L,)`` int64, updates of this problem so far.
        seeds: ``(L,)`` int64, which pick the problems.
        horizon: ``(L,)`` int64, updates after which a lane begins its next problem.
    """

    params: Tensors
    state: State
    step: Tensor
    seeds: Tensor
    horizon: Tensor

    def __len__(self) -> int:
        return len(self.seeds)

    def detach(self) -> "Lanes":
        """The same, where no gradient passes."""
        params = {name: value.detach() for name, value in self.params.items()}
        return replace(self, params=params, state=map_state(Tensor.detach, self.state))


class Stepped(NamedTuple):
    """What one step gives: lanes, their losses ``(L,)`` and whether they are finite ``(L,)``."""

    lanes: Lanes
    losses: Tensor
    finite: Tensor


class Advanced(NamedTuple):
    """What several steps give.

    Args:
        lanes: after the last step.
        losses: ``(steps, L)`` of the parameters before each update, at most the task's ``ceiling``, which
            also stands for what is not finite.
        ended: ``(steps, L)`` booleans, whether the lane has begun its next problem after this step.
        diverged: ``(steps, L)``, whether it had to, for something was not finite.
    """

    lanes: Lanes
    losses: Tensor
    ended: Tensor
    diverged: Tensor


def start(task: Task, optimizer: Optimizer, seeds: Tensor, horizon: Tensor | int) -> Lanes:
    """Lanes at the beginning of the problems that ``seeds (L,)`` pick.

    Args:
        horizon: of all lanes, or ``(L,)``.
    """
    if not isinstance(horizon, Tensor):
        horizon = torch.full_like(seeds, horizon)
    params = task.init(seeds)
    return Lanes(params, optimizer.init(params), torch.zeros_like(seeds), seeds, horizon)


def step_lanes(task: Task, optimizer: Optimizer, lanes: Lanes) -> Stepped:
    """One update of every lane, differentiable, on the training batch of its step; no lane begins anew.

    Losses are as they are. A lane is finite if its loss, its gradients and its new parameters are; the update
    of one whose loss or gradients are not sees zeros in their place, so that no gradient of the
    hyperparameters is spoilt, and for the same reason derivatives of later steps with respect to parameters
    count as 0 where they are not finite.
    """
    params = _guarded(lanes.params)
    losses, grads = task.values_and_grads(params, task.batch(lanes.seeds, lanes.step))
    finite = _finite(losses, grads)
    seen = losses
    if not finite.all():
        grads = {name: _keep(finite, value) for name, value in grads.items()}
        seen = torch.where(finite, losses, task.ceiling)
    params, state = optimizer.update(grads, lanes.state, params, lanes.step, seen)
    finite = finite & _finite(losses, params)
    return Stepped(replace(lanes, params=params, state=state, step=lanes.step + 1), losses, finite)


def restart(
    task: Task, optimizer: Optimizer, lanes: Lanes, which: Tensor, seeds: Tensor, horizon: Tensor
) -> Lanes:
    """Let lanes where ``which (L,)`` is true begin new problems; the others stay as they are, bit for bit.

    Args:
        seeds, horizon: ``(L,)``, of the new problems; read only where ``which`` is true.
    """
    rows = which.nonzero()[:, 0]
    if not len(rows):
        return lanes
    fresh = task.init(seeds[rows])
    params = {name: value.index_copy(0, rows, fresh[name]) for name, value in lanes.params.items()}
    # All lanes, as an optimizer need not be able to tell which lanes some rows belong to.
    made = optimizer.init({name: value.detach() for name, value in params.items()})
    state = map_state(lambda new, old: old.index_copy(0, rows, new[rows]), made, lanes.state)
    return Lanes(
        params,
        state,
        torch.where(which, 0, lanes.step),
        torch.where(which, seeds, lanes.seeds),
        torch.where(which, horizon, lanes.horizon),
    )


def advance(
    task: Task,
    optimizer: Optimizer,
    lanes: Lanes,
    steps: int,
    horizons: Callable[[Tensor], Tensor] | None = None,
) -> Advanced:
    """Several updates of every lane; those that reach their horizon or are not finite begin anew at once.

    Differentiable, where gradients are on; they do not pass a beginning.

    Args:
        horizons: from the seeds ``(L,)`` of new problems to their horizons; by default a lane keeps its own.
    """
    losses, ended, diverged = [], [], []
    for _ in range(steps):
        lanes, loss, finite = step_lanes(task, optimizer, lanes)
        done = (lanes.step >= lanes.horizon) | ~finite
        if done.any():
            seeds = next_seeds(lanes.seeds)
            horizon = lanes.horizon if horizons is None else horizons(seeds)
            lanes = restart(task, optimizer, lanes, done, seeds, horizon)
        losses.append(bounded(loss, task.ceiling))
        ended.append(done)
        diverged.append(~finite)
    return Advanced(lanes, torch.stack(losses), torch.stack(ended), torch.stack(diverged))


def bounded(losses: Tensor, ceiling: float) -> Tensor:
    """Losses, at most ``ceiling``; it also stands for those that are not finite."""
    return torch.where(losses < ceiling, losses, ceiling)


def _finite(losses: Tensor, tensors: Tensors) -> Tensor:
    """``(L,)``: whether all values of a lane are finite; sums that overflow count as not finite."""
    with torch.no_grad():
        total = losses
        for tensor in tensors.values():
            total = total + lane_rows(tensor).sum(1)
        return total - total == 0


def _keep(finite: Tensor, value: Tensor) -> Tensor:
    return torch.where(finite.view(-1, *(1 for _ in value.shape[1:])), value, 0)


def _guarded(params: Tensors) -> Tensors:
    """The same parameters; gradients that come back to them are 0 where they are not finite."""
    if not torch.is_grad_enabled():
        return params
    found = {}
    for name, value in params.items():
        found[name] = value
        if value.requires_grad:
            entry = value.view_as(value)
            entry.register_hook(lambda grad: torch.nan_to_num(grad, 0.0, 0.0, 0.0))
            found[name] = entry.view_as(entry)  # inner gradients, taken here, do not pass the hook
    return found
