"""Persistent evolution strategies."""

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
from wsl.learnopt.estimators._groups import GroupStep, begin, over_groups
from wsl.learnopt.estimators._objective import Objective
from wsl.learnopt.estimators._perturbations import antithetic, differences, draw, weighted
from wsl.learnopt.estimators._unroll import Unroll, unroll
from wsl.learnopt.optimizers import Optimizer, PerLane
from wsl.learnopt.tasks import Task, TaskFamily
from wsl.learnopt.truncation import Truncation


@dataclass(frozen=True)
class PES(Estimator):
    """A few steps a meta-step, without bias: losses are weighted by all perturbations that led to them.

    With ``xi`` the sum of the perturbations ``e`` that a pair has seen on its problem, the present one
    included, the estimate is ``sum_p xi_p (L(+) - L(-)) / (2 P sigma^2)``, the losses averaged over the steps
    of the meta-step. A pair that ends or diverges within the steps begins another problem, with the same
    perturbation: from there on losses are weighted by it alone, and it is what the sum begins with. The
    expectation is the gradient of the smoothed loss of each inner step, at the rate at which lanes take it.

    Args:
        truncation: of the horizons of lanes; their first ones are staggered.
        steps: inner steps of a meta-step.
        pairs: of lanes, with the perturbation added and taken away.
        sigma: standard deviation of the perturbations.
        objective: what losses count for.

    Raises:
        ValueError: a number that is not above 0.

    Source: Vicol et al. 2021 (arXiv:2112.13835), Algorithm 2, antithetic. Deviates: problems end and begin
    within the steps.
    """

    truncation: Truncation
    steps: int = 20
    pairs: int = 32
    sigma: float = 0.01
    objective: Objective = field(default_factory=Objective)

    def __post_init__(self) -> None:
        check_positive(self, "steps", "pairs", "sigma")

    def start(self, optimizer: Optimizer, task: Task | TaskFamily, generator: Generator) -> EstimatorState:
        theta = meta_parameters(optimizer)
        state = begin(optimizer, task, self.pairs, generator, self.truncation.staggered, copies=2)
        for group in state.groups:
            pairs = len(group.first) // 2
            group.noise = {name: p.new_zeros(pairs, *p.shape) for name, p in theta.items()}
        return state

    @torch.no_grad()
    def estimate(
        self, optimizer: Optimizer, task: Task | TaskFamily, state: EstimatorState, generator: Generator
    ) -> tuple[Tensors, EstimatorState, dict[str, float]]:
        theta = meta_parameters(optimizer)

        def step(one: Task, group: LaneGroup) -> GroupStep:
            noise = draw(theta, len(group.first) // 2, self.sigma, generator)
            ran = unroll(
                one,
                PerLane(optimizer.on(one.spec), antithetic(theta, noise)),
                group.lanes,
                group.first,
                self.steps,
                self.objective,
                self.truncation,
                copies=2,
            )
            grads, sums = _weigh(ran, noise, group.noise, self.sigma)
            return GroupStep(grads, ran.figures(2), LaneGroup(group.task, ran.lanes, ran.first, sums))

        return over_groups(task, state.groups, step)


def _weigh(ran: Unroll, noise: Tensors, before: Tensors, sigma: float) -> tuple[Tensors, Tensors]:
    """The gradient, and the sums of perturbations after the steps, from those before and the present ones."""
    pairs = len(ran.first) // 2
    change = differences(ran.counted, pairs)
    old = ~ran.fresh[:, :pairs]  # both lanes of a pair begin together
    all_steps, old_steps = change.mean(0), (change * old).mean(0)
    present, past = weighted(noise, all_steps, sigma), weighted(before, old_steps, sigma)
    carried = ran.carried[:pairs]
    begun = carried & ran.begun[:pairs]

    def summed(name: str) -> Tensor:
        total = torch.where(_like(begun, noise[name]), noise[name], before[name] + noise[name])
        return torch.where(_like(carried, total), total, torch.zeros_like(total))

    return {name: present[name] + past[name] for name in noise}, {name: summed(name) for name in noise}


def _like(which: Tensor, value: Tensor) -> Tensor:
    return which.view(-1, *(1 for _ in value.shape[1:]))
