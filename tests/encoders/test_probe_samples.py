"""Probing at given samples: the battery of all encoders, which inputs it has, how it reads logits."""

import math

import pytest
import torch
from encoder_suite import EncoderSuite
from probed_module import network_of
from torch import nn

import wsl
from wsl.encoders import ProbeSamples
from wsl.nn import GeneratedProbes, SampledProbes
from wsl.spec import WeightSpec
from wsl.testing import random_weights


class TestProbeSamples(EncoderSuite):
    standardises = False

    def make(self, spec: WeightSpec) -> ProbeSamples:
        module, examples = network_of(spec)
        probes = SampledProbes(module, spec, examples, probes=3)
        return ProbeSamples(spec, channels=6, layers=1, hidden=8, learned=True, probes=probes)


def test_samples_stay_unless_they_are_learned() -> None:
    module, examples = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5)), torch.rand(6, 3) * 4 - 2
    spec = wsl.trace(module, examples)
    for learned in (False, True):
        probes = SampledProbes(module, spec, examples, probes=4)
        (inputs,) = probes.made_inputs()
        gaps = (inputs[:, None] - examples).abs().amax(2).amin(1)
        assert (gaps < 0.1).all(), "they start at the samples"
        encoder = ProbeSamples(spec, channels=6, hidden=8, learned=learned, probes=probes)
        encoder(random_weights(spec, 2, dtype=torch.float32)).nodes["y"].sum().backward()
        assert all((p.grad is not None) == learned for p in encoder.probes.parameters())
        assert all(p.grad is not None for p in encoder.layers.parameters())


def test_a_single_logit_is_that_of_a_class_against_none() -> None:
    module, examples = nn.Linear(3, 1), torch.rand(6, 3)
    probes = SampledProbes(module, wsl.trace(module, examples), examples, probes=4)
    weights = {"weight": torch.tensor([[[0.0, 0.0, 0.0]]] * 2), "bias": torch.tensor([[-1.0], [9.0]])}
    answers = probes(weights, logits=True)
    expected = 1 + torch.tensor([[-1.0], [9.0]]).sigmoid().log() / 2
    assert torch.allclose(answers, expected.expand(2, 4))


@pytest.mark.parametrize("kind", [GeneratedProbes, SampledProbes])
def test_logits_are_read_as_bounded_log_probabilities(kind: type[GeneratedProbes | SampledProbes]) -> None:
    module, examples = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5)), torch.rand(6, 3)
    spec = wsl.trace(module, examples)
    probes = kind(module, spec, examples, probes=4).double()
    weights = {name: 3 * value for name, value in random_weights(spec, 2).items()}
    answers = probes(weights, logits=True).view(2, 4, 5)
    for b in range(2):
        module.double().load_state_dict({name: tensor[b] for name, tensor in weights.items()})
        chances = module(*probes.made_inputs()).softmax(-1).clamp(min=math.exp(-4))
        assert torch.allclose(answers[b], 1 + chances.log() / 2, atol=1e-12)
    assert answers.min() == -1 and answers.max() <= 1
    moved = {**weights, "2.bias": weights["2.bias"] + 7}  # leaves all probabilities as they are
    assert torch.allclose(probes(moved, logits=True).view(2, 4, 5), answers, atol=1e-12)
