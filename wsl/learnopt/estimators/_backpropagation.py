"""Meta-gradients by automatic differentiation through inner steps."""

from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from wsl.learnopt._types import Tensors
from wsl.learnopt.estimators._estimator import (
    Estimator,
    EstimatorState,
    LaneGroup,
    check_positive,
    meta_parameters,
)
from wsl.learnopt.estimators._groups import SEEDS, GroupStep, begin, map_lanes, over_groups
from wsl.learnopt.estimators._objective import Objective
from wsl.learnopt.estimators._unroll import Unroll, unroll
from wsl.learnopt.optimizers import Optimizer, PerLane
from wsl.learnopt.tasks import Task, TaskFamily
from wsl.learnopt.truncation import Truncation


@dataclass(frozen=True)
class TruncatedBackprop(Estimator):
    """Backpropagation through a few steps: of low variance, and blind to what comes after them.

    Each lane has a copy of the parameters, so that a gradient that is not finite is that lane's alone; it
    counts as zero.

    Args:
        truncation: of the horizons of lanes; their first ones are staggered.
        steps: inner steps of a meta-step, all of which are kept in memory.
        lanes: trainings at once.
        objective: what losses count for.

    Raises:
        ValueError: a number that is not above 0.
    """

    truncation: Truncation
    steps: int = 20
    lanes: int = 32
    objective: Objective = field(default_factory=Objective)

    def __post_init__(self) -> None:
        check_positive(self, "steps", "lanes")

    def start(self, optimizer: Optimizer, task: Task | TaskFamily, generator: Generator) -> EstimatorState:
        meta_parameters(optimizer)
        return begin(optimizer, task, self.lanes, generator, self.truncation.staggered)

    def estimate(
        self, optimizer: Optimizer, task: Task | TaskFamily, state: EstimatorState, generator: Generator
    ) -> tuple[Tensors, EstimatorState, dict[str, float]]:
        return _differentiate(optimizer, task, state, self.steps, self.objective, self.truncation)


@dataclass(frozen=True)
class FullBackprop(Estimator):
    """Backpropagation through whole trainings, which are kept in memory: for short horizons.

    A lane that diverges counts as the objective's bound from there on, and its gradient as zero where it is
    not finite.

    Args:
        truncation: of horizons; one is drawn for all lanes of a meta-step.
        lanes: trainings at once.
        objective: what losses count for.

    Raises:
        ValueError: a number that is not above 0.
    """

    truncation: Truncation
    lanes: int = 32
    objective: Objective = field(default_factory=Objective)

    def __post_init__(self) -> None:
        check_positive(self, "lanes")

    def start(self, optimizer: Optimizer, task: Task | TaskFamily, generator: Generator) -> EstimatorState:
        meta_parameters(optimizer)
        return EstimatorState()

    def estimate(
        self, optimizer: Optimizer, task: Task | TaskFamily, state: EstimatorState, generator: Generator
    ) -> tuple[Tensors, EstimatorState, dict[str, float]]:
        horizon = int(self.truncation.horizons(torch.randint(SEEDS, (1,), generator=generator)))
        begun = begin(optimizer, task, self.lanes, generator, lambda s: torch.full_like(s, horizon))
        grads, _, figures = _differentiate(optimizer, task, begun, horizon, self.objective, None)
        return grads, state, figures


def _differentiate(
    optimizer: Optimizer,
    task: Task | TaskFamily,
    state: EstimatorState,
    steps: int,
    objective: Objective,
    truncation: Truncation | None,
) -> tuple[Tensors, EstimatorState, dict[str, float]]:
    theta = meta_parameters(optimizer)

    def step(one: Task, group: LaneGroup) -> GroupStep:
        count = len(group.first)
        with torch.enable_grad():
            copies = {n: p.repeat(count, *(1 for _ in p.shape)).requires_grad_() for n, p in theta.items()}
            perturbed = PerLane(optimizer.on(one.spec), copies)
            ran = unroll(one, perturbed, group.lanes, group.first, steps, objective, truncation)
            grads, dropped = _gradient(ran, copies)
        after = LaneGroup(group.task, map_lanes(Tensor.detach, ran.lanes), ran.first)
        return GroupStep(grads, {**ran.figures(), "dropped": float(dropped)}, after)

    return over_groups(task, state.groups, step)


def _gradient(ran: Unroll, copies: Tensors) -> tuple[Tensors, int]:
    """The mean over the lanes of their gradients, and the number of those that are not finite."""
    names, values = list(copies), list(copies.values())
    found = torch.autograd.grad(ran.counted.mean(0).sum(), values, allow_unused=True)
    lanes = [torch.zeros_like(p) if g is None else g for p, g in zip(values, found, strict=True)]
    finite = torch.stack([g.reshape(len(g), -1).isfinite().all(1) for g in lanes]).all(0)
    means = [torch.where(finite.view(-1, *(1 for _ in g.shape[1:])), g, 0).mean(0) for g in lanes]
    return dict(zip(names, means, strict=True)), int((~finite).sum())
