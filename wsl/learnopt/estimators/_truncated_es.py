"""Evolution strategies on parts of trainings."""

from dataclasses import dataclass, field

import torch
from torch import Generator

from wsl.learnopt._types import Tensors
from wsl.learnopt.estimators._estimator import (
    Estimator,
    EstimatorState,
    LaneGroup,
    check_positive,
    meta_parameters,
)
from wsl.learnopt.estimators._groups import GroupStep, begin, map_lanes, over_groups
from wsl.learnopt.estimators._objective import Objective
from wsl.learnopt.estimators._perturbations import antithetic, differences, draw, weighted
from wsl.learnopt.estimators._unroll import unroll
from wsl.learnopt.optimizers import Optimizer, PerLane
from wsl.learnopt.tasks import Task, TaskFamily
from wsl.learnopt.truncation import Truncation


@dataclass(frozen=True)
class TruncatedES(Estimator):
    """A few steps under perturbed parameters from where the unperturbed training is.

    Cheap, of low variance, and biased: a perturbation's effects end with the few steps.

    Args:
        truncation: of the horizons of lanes.
        steps: inner steps of a meta-step.
        pairs: lanes with the perturbation added and taken away; a third lane of each trains without.
        sigma: standard deviation of the perturbations.
        objective: what losses count for.

    Raises:
        ValueError: a number that is not above 0.

    Source: Vicol et al. 2021 (arXiv:2112.13835), Algorithm 1, antithetic. Deviates: a lane that ends or
    diverges begins another problem at once.
    """

    truncation: Truncation
    steps: int = 20
    pairs: int = 32
    sigma: float = 0.01
    objective: Objective = field(default_factory=Objective)

    def __post_init__(self) -> None:
        check_positive(self, "steps", "pairs", "sigma")

    def start(self, optimizer: Optimizer, task: Task | TaskFamily, generator: Generator) -> EstimatorState:
        meta_parameters(optimizer)
        return begin(optimizer, task, self.pairs, generator, self.truncation.staggered)

    @torch.no_grad()
    def estimate(
        self, optimizer: Optimizer, task: Task | TaskFamily, state: EstimatorState, generator: Generator
    ) -> tuple[Tensors, EstimatorState, dict[str, float]]:
        theta = meta_parameters(optimizer)

        def step(one: Task, group: LaneGroup) -> GroupStep:
            pairs = len(group.first)
            noise = draw(theta, pairs, self.sigma, generator)
            means = {name: p.expand(pairs, *p.shape) for name, p in theta.items()}
            thetas = {name: torch.cat([both, means[name]]) for name, both in antithetic(theta, noise).items()}
            lanes = map_lanes(lambda value: torch.cat([value] * 3), group.lanes)
            ran = unroll(
                one,
                PerLane(optimizer.on(one.spec), thetas),
                lanes,
                group.first.repeat(3),
                self.steps,
                self.objective,
                self.truncation,
                copies=3,
            )
            grads = weighted(noise, differences(ran.counted, pairs).mean(0), self.sigma)
            unperturbed = map_lanes(lambda value: value[2 * pairs :], ran.lanes)
            after = LaneGroup(group.task, unperturbed, ran.first[2 * pairs :])
            return GroupStep(grads, ran.figures(3), after)

        return over_groups(task, state.groups, step)
