"""Groups of lanes on one task each: how they begin, and how their gradients are averaged."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from wsl.learnopt._lanes import Lanes, start
from wsl.learnopt._types import Tensors, map_state
from wsl.learnopt.estimators._estimator import EstimatorState, LaneGroup
from wsl.learnopt.optimizers import Optimizer
from wsl.learnopt.tasks import Task, TaskFamily

SEEDS = 2**62
"""Seeds of the lanes' first problems are below."""


class GroupStep(NamedTuple):
    """What a meta-step found on one group: a gradient, figures, and the group afterwards."""

    grads: Tensors
    figures: dict[str, float]
    group: LaneGroup


def begin(
    optimizer: Optimizer,
    task: Task | TaskFamily,
    count: int,
    generator: Generator,
    horizons: Callable[[Tensor], Tensor],
    copies: int = 1,
) -> EstimatorState:
    """``count`` lanes at their first steps, ``copies`` times each: lane ``c * count + l`` is a copy of ``l``.

    Lanes are shared out among the tasks of a family.
    """
    groups = []
    shares = [(0, count)] if isinstance(task, Task) else task.sample(count, generator)
    for index, lanes in shares:
        one = member(task, index)
        seeds = torch.randint(SEEDS, (lanes,), generator=generator).to(one.device)
        horizon, seeds = horizons(seeds).repeat(copies), seeds.repeat(copies)
        made = start(one, optimizer.on(one.spec), seeds, horizon)
        first = torch.zeros(len(seeds), dtype=one.dtype, device=one.device)
        groups.append(LaneGroup(index, made, first))
    return EstimatorState(groups)


def member(task: Task | TaskFamily, index: int) -> Task:
    """The task of a group."""
    return task if isinstance(task, Task) else task[index]


def over_groups(
    task: Task | TaskFamily, groups: Iterable[LaneGroup], step: Callable[[Task, LaneGroup], GroupStep]
) -> tuple[Tensors, EstimatorState, dict[str, float]]:
    """What :meth:`Estimator.estimate` returns, by a step on each group; averages are weighted by lanes."""
    found = [step(member(task, group.task), group) for group in groups]
    sizes = [len(one.group.first) for one in found]
    shares = [size / sum(sizes) for size in sizes]
    grads = {
        name: _sum([one.grads[name] * s for one, s in zip(found, shares, strict=True)])
        for name in found[0].grads
    }
    figures = {
        name: sum(
            one.figures[name] * (s if name in _AVERAGED else 1) for one, s in zip(found, shares, strict=True)
        )
        for name in found[0].figures
    }
    return grads, EstimatorState([one.group for one in found]), figures


def map_lanes(function: Callable[[Tensor], Tensor], lanes: Lanes) -> Lanes:
    """Lanes with ``function`` of every tensor."""
    params = {name: function(value) for name, value in lanes.params.items()}
    state = map_state(function, lanes.state)
    return Lanes(params, state, function(lanes.step), function(lanes.seeds), function(lanes.horizon))


_AVERAGED = ("loss", "update_norm")


def _sum(values: list[Tensor]) -> Tensor:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total
