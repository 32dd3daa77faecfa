"""Evolution strategies on whole trainings."""

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
from wsl.learnopt.estimators._groups import SEEDS, GroupStep, begin, over_groups
from wsl.learnopt.estimators._objective import Objective
from wsl.learnopt.estimators._perturbations import antithetic, differences, draw, weighted
from wsl.learnopt.estimators._unroll import unroll
from wsl.learnopt.optimizers import Optimizer, PerLane
from wsl.learnopt.tasks import Task, TaskFamily
from wsl.learnopt.truncation import Truncation


@dataclass(frozen=True)
class FullES(Estimator):
    """Whole trainings under perturbed parameters.

    The estimate is ``sum_p e_p (L(theta + e_p) - L(theta - e_p)) / (2 P sigma^2)``, which is without bias the
    gradient of the meta-loss smoothed by the perturbations. Both lanes of a pair have the same seed, and so
    the same batches.

    Args:
        truncation: of horizons; one is drawn for all lanes of a meta-step.
        pairs: of lanes, with the perturbation added and taken away.
        sigma: standard deviation of the perturbations.
        objective: what losses count for.

    Raises:
        ValueError: a number that is not above 0.

    Source: antithetic ES, as in Vicol et al. 2021 (arXiv:2112.13835), section 2, on the full unroll.
    """

    truncation: Truncation
    pairs: int = 32
    sigma: float = 0.01
    objective: Objective = field(default_factory=Objective)

    def __post_init__(self) -> None:
        check_positive(self, "pairs", "sigma")

    def start(self, optimizer: Optimizer, task: Task | TaskFamily, generator: Generator) -> EstimatorState:
        meta_parameters(optimizer)
        return EstimatorState()

    @torch.no_grad()
    def estimate(
        self, optimizer: Optimizer, task: Task | TaskFamily, state: EstimatorState, generator: Generator
    ) -> tuple[Tensors, EstimatorState, dict[str, float]]:
        theta = meta_parameters(optimizer)
        horizon = int(self.truncation.horizons(torch.randint(SEEDS, (1,), generator=generator)))
        begun = begin(optimizer, task, self.pairs, generator, lambda s: torch.full_like(s, horizon), copies=2)

        def step(one: Task, group: LaneGroup) -> GroupStep:
            pairs = len(group.first) // 2
            noise = draw(theta, pairs, self.sigma, generator)
            perturbed = PerLane(optimizer.on(one.spec), antithetic(theta, noise))
            ran = unroll(one, perturbed, group.lanes, group.first, horizon, self.objective, None, copies=2)
            weights = differences(ran.counted, pairs).mean(0)
            return GroupStep(weighted(noise, weights, self.sigma), ran.figures(2), group)

        grads, _, figures = over_groups(task, begun.groups, step)
        return grads, state, figures
