"""Permuting the hidden neurons permutes the whole trajectory of a learned optimizer."""

import pytest
import torch
from learned_problems import Problem, randomise
from torch import Tensor

from wsl.learnopt import (
    Celo2Optimizer,
    DeepSetsOptimizer,
    GraphOptimizer,
    LearnedOptimizer,
    MomentumFeatures,
    NFNOptimizer,
    SmallFCOptimizer,
    UNFOptimizer,
)
from wsl.learnopt.networks import DeepSets, UpdateNetwork
from wsl.spec import WeightSpec
from wsl.symmetry import apply, sample


def pooled(spec: WeightSpec) -> LearnedOptimizer:
    """With the network that pools over blocks, which no recipe has."""
    features = MomentumFeatures()
    return LearnedOptimizer(spec, features, DeepSets(spec, features.entry_channels, features.shared_channels))


def graph(spec: WeightSpec) -> LearnedOptimizer:
    return GraphOptimizer(spec, channels=8, layers=1, numbers=2, hidden=8)


MAKERS = [UNFOptimizer, NFNOptimizer, DeepSetsOptimizer, SmallFCOptimizer, Celo2Optimizer, graph, pooled]
CASES = [
    (make, name) for make in MAKERS for name in ("mlp", "cnn", "rnn") if (make, name) != (NFNOptimizer, "rnn")
]


class Dense(UpdateNetwork):
    """Knows which weight is which: no learned optimizer may."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.gains = torch.nn.Parameter(torch.linspace(-1, 1, count))

    def forward(self, entries: Tensor, shared: Tensor) -> Tensor:
        return entries[:, 0] * self.gains

    def on(self, spec: WeightSpec) -> "Dense":
        return self


def trajectory(optimizer: LearnedOptimizer, problem: Problem) -> tuple[float, float]:
    """How far weights came in 100 steps, and how far apart the permuted twins of all lanes are in the end.

    Lanes are followed by their twins, on the same data.
    """
    action = sample(problem.spec, 1, generator=torch.Generator().manual_seed(1))
    moved = apply(problem.spec, action, problem.params)
    problem.inputs, problem.targets = (
        x.repeat(2, *[1] * (x.dim() - 1)) for x in (problem.inputs, problem.targets)
    )
    problem.lanes = 2
    begin = {name: torch.cat([value, moved[name]]) for name, value in problem.params.items()}
    end = problem.train(optimizer, begin, 100)[-1]
    expected = apply(problem.spec, action, {name: value[:1] for name, value in end.items()})
    far = max((end[name] - value).abs().max().item() for name, value in begin.items())
    return far, max((end[name][1:] - value).abs().max().item() for name, value in expected.items())


@pytest.mark.parametrize(("make", "name"), CASES, ids=lambda value: getattr(value, "__name__", value))
@torch.no_grad()
def test_permuted_neurons_permute_the_trajectory(make, name) -> None:
    problem = Problem(name, lanes=1)
    torch.manual_seed(0)
    optimizer = make(problem.spec).double()
    randomise(optimizer)
    far, apart = trajectory(optimizer, problem)
    assert far > 1e-2
    assert apart < 1e-8


@torch.no_grad()
def test_the_trajectory_of_a_network_that_knows_its_weights_is_another() -> None:
    problem = Problem("mlp", lanes=1)
    network = Dense(problem.spec.parameter_count)
    optimizer = LearnedOptimizer(problem.spec, MomentumFeatures(), network).double()
    assert trajectory(optimizer, problem)[1] > 1e-3
