"""Generated probes: answers against running one network at a time, images of any size, what they learn."""

import pytest
import torch
from torch import Tensor, nn

import wsl
from wsl.models import Siren, coordinate_grid
from wsl.nn import MLP, GeneratedProbes
from wsl.spec import SpecError
from wsl.testing import random_weights


class Answers(nn.Module):
    """Two inputs, one of integers, and an output with structure."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 3)
        self.layer = nn.Linear(3, 2)
        self.register_buffer("offset", torch.tensor([1.0, 2.0]), persistent=False)

    def forward(self, numbers: Tensor, scale: Tensor) -> dict[str, tuple[Tensor, ...]]:
        hidden = self.table(numbers).relu() * scale.unsqueeze(-1)
        out = self.layer(hidden) + self.offset
        return {"both": (out, out.argmax(-1)), "sum": (hidden.sum(-1),)}


def test_answers_equal_those_of_single_runs() -> None:
    module, grid = Siren(2, (5, 4), 3), coordinate_grid((4, 4))
    spec = wsl.trace(module, grid)
    probes = GeneratedProbes(module, spec, grid, probes=7).double()
    weights = random_weights(spec, 3)
    (inputs,) = probes.made_inputs()
    assert inputs.shape == (7, 2) and probes.channels == 21
    for b, answers in enumerate(probes(weights)):
        module.double().load_state_dict({name: tensor[b] for name, tensor in weights.items()})
        assert torch.allclose(answers, module(inputs).flatten(), atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 7, 10), (2, 16, 9), (1, 2, 2)])
def test_images(shape: tuple[int, ...]) -> None:
    module = nn.Sequential(nn.Conv2d(shape[0], 2, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3))
    examples = torch.rand(4, *shape) * 3 + 1
    spec = wsl.trace(module, examples)
    probes = GeneratedProbes(module, spec, examples, probes=5, latent=6, width=2)
    (inputs,) = probes.made_inputs()
    assert inputs.shape == (5, *shape) and inputs.min() > 1 and inputs.max() < 4
    assert (inputs[0] - inputs[1]).abs().max() > 1e-3, "probes differ"
    assert (inputs - inputs.mean((2, 3), keepdim=True)).abs().max() > 1e-3, "pixels differ"
    probes(random_weights(spec, 2, dtype=torch.float32)).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in probes.parameters())


def test_generators_are_linear() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    probes = GeneratedProbes(module, wsl.trace(module, torch.rand(4, 3)), torch.rand(4, 3), probes=3).double()
    generator, a, b = probes.generators[0], torch.randn(2, 32).double(), torch.randn(2, 32).double()
    zero = generator(torch.zeros_like(a))
    assert torch.allclose(generator(a + 2 * b) - zero, generator(a) - zero + 2 * (generator(b) - zero))


def test_integers_constants_and_structured_outputs() -> None:
    module, examples = Answers(), (torch.tensor([0, 3, 4]), torch.rand(3))
    spec = wsl.trace(module, examples)
    probes = GeneratedProbes(module, spec, examples, probes=4).double()
    numbers, scale = probes.made_inputs()
    assert numbers.tolist() == [0, 3, 4, 0] and scale.shape == (4,)
    weights = random_weights(spec, 2)
    module.double().load_state_dict({name: tensor[1] for name, tensor in weights.items()})
    answer = module(numbers, scale)
    expected = torch.cat([answer["both"][0].flatten(), answer["sum"][0].flatten()])
    assert probes.channels == 12 and torch.allclose(probes(weights)[1], expected, atol=1e-12)


def test_bad_arguments() -> None:
    module, grid = Siren(2, (5, 4), 1), coordinate_grid((4, 4))
    spec = wsl.trace(module, grid)
    with pytest.raises(SpecError, match="not of the architecture of the spec"):
        GeneratedProbes(Siren(2, (5, 3), 1), spec, grid)
    with pytest.raises(ValueError, match="probes=0"):
        GeneratedProbes(module, spec, grid, probes=0)
    with pytest.raises(ValueError, match="latent=0"):
        GeneratedProbes(module, spec, grid, latent=0)


def test_mlp() -> None:
    assert [type(layer) for layer in MLP(3, 4, 1, 2)] == [nn.Linear, nn.ReLU, nn.Dropout, nn.Linear]
    assert [tuple(layer.weight.shape) for layer in MLP(3, 4, 0, 2)] == [(2, 3)]
    with pytest.raises(ValueError, match="layers=-1"):
        MLP(3, 4, -1, 2)
