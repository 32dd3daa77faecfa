"""Every encoder reads for learned optimizers, with parameters of each lane's own too."""

import pytest
import torch
from learned_problems import Problem, randomise
from torch.func import functional_call

from wsl import encoders
from wsl.learnopt import LearnedOptimizer, MomentumFeatures, Optimizer
from wsl.learnopt.networks import EncoderNetwork
from wsl.nn import GeneratedProbes
from wsl.spec import SpecError
from wsl.symmetry import apply, sample

VECTORISED = [
    "DeepSets", "FastGraphMetanetwork", "FlatMLP", "NeuralGraphTransformer", "ProbeGen", "StatNet",
    "UniversalNeuralFunctional",
]  # fmt: skip
ONE_BY_ONE = [
    "DWSNet", "GraphMetanetwork", "NFNHNP", "NFNNP", "NFT", "NeuralGraphGNN", "ScaleGMN",
    "ScaleGMNBidirectional", "SetTransformer", "Transformer",
]  # fmt: skip


def made(name: str, problem: Problem) -> LearnedOptimizer:
    torch.manual_seed(0)
    more = {}
    if name == "ProbeGen":
        more["probes"] = GeneratedProbes(problem.module.float(), problem.spec, (torch.zeros(1, 3),))
    encoder = getattr(encoders, name)(problem.spec, channels=8, **more)
    features = MomentumFeatures()
    network = EncoderNetwork(encoder, features.entry_channels, features.shared_channels, numbers=2, hidden=4)
    optimizer = LearnedOptimizer(problem.spec, features, network).double()
    problem.module.double()
    randomise(optimizer)
    return optimizer


@pytest.mark.parametrize("name", VECTORISED + ONE_BY_ONE)
@torch.no_grad()
def test_parameters_of_each_lane(name) -> None:
    problem = Problem("mlp")
    optimizer = made(name, problem)
    grads, losses = problem.gradients(problem.params)
    given = grads, optimizer.init(problem.params), problem.params, torch.tensor([1, 700]), losses
    thetas = {
        key: value + 0.05 * torch.randn(2, *value.shape, dtype=value.dtype)
        for key, value in optimizer.named_parameters()
    }
    ways = [optimizer.update_each(thetas, *given)]
    if name in VECTORISED:
        ways.append(Optimizer.update_each(optimizer, thetas, *given))
    for lane in range(2):
        expected, _ = functional_call(optimizer, {key: value[lane] for key, value in thetas.items()}, given)
        for found, _ in ways:
            for key, value in expected.items():
                torch.testing.assert_close(found[key][lane], value[lane], rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", sorted({*VECTORISED, *ONE_BY_ONE} - {"FlatMLP", "ProbeGen", "Transformer"}))
@torch.no_grad()
def test_updates_are_permuted_along(name) -> None:
    problem = Problem("mlp")
    optimizer = made(name, problem)
    action = sample(problem.spec, 2, generator=torch.Generator().manual_seed(1))
    grads, losses = problem.gradients(problem.params)
    state, step = optimizer.init(problem.params), torch.tensor([1, 700])
    plain, _ = optimizer.update(grads, state, problem.params, step, losses)
    grads, params = (apply(problem.spec, action, value) for value in (grads, problem.params))
    found, _ = optimizer.update(grads, state, params, step, losses)
    for key, value in apply(problem.spec, action, plain).items():
        torch.testing.assert_close(found[key], value, rtol=1e-12, atol=1e-12)


def test_encoders_of_one_architecture_say_so() -> None:
    problem, other = Problem("mlp"), Problem("cnn")
    with pytest.raises(SpecError, match="parameters of DWSNet depend on the architecture"):
        made("DWSNet", problem).on(other.spec)
