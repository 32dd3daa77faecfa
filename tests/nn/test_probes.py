"""Probe features: which axis shows where, against the activations themselves, and what they refuse."""

import logging

import pytest
import torch
from torch import Tensor, nn

import wsl
from wsl.models import FourierMLP, Siren, coordinate_grid
from wsl.nn import ProbeFeatures
from wsl.testing import assert_equivariant, random_weights


def small_cnn() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(3 * 4, 5),
        nn.Tanh(), nn.Linear(5, 2),
    )  # fmt: skip


def test_activations_of_a_siren() -> None:
    siren, grid = Siren(2, (5, 4), 1), coordinate_grid((4, 4))
    spec = wsl.trace(siren, grid)
    probes = ProbeFeatures(siren, spec, grid, probes=6)
    weights = random_weights(spec, 2, dtype=torch.float32)
    features = probes(weights)
    assert {axis: tuple(f.shape) for axis, f in features.items()} == {
        "h1": (2, 5, 6), "h2": (2, 4, 6), "y": (2, 1, 6)
    }  # fmt: skip
    siren.load_state_dict({name: tensor[1] for name, tensor in weights.items()})
    (points,) = probes.learned_inputs()
    assert torch.allclose(features["y"][1], siren(points).T, atol=1e-5)
    hidden = siren.sines[0](siren.layers[0](points))
    assert torch.allclose(features["h1"][1], hidden.T, atol=1e-5)


def test_axes_of_a_cnn_after_norm_and_activation() -> None:
    net, images = small_cnn().eval(), torch.rand(8, 1, 4, 4)
    spec = wsl.trace(net, images)
    probes = ProbeFeatures(net, spec, images, probes=3)
    hidden = [axis.name for axis in spec.hidden_axes]
    assert {axis: (site.call.module, site.dim) for axis, site in probes.sites.items()} == {
        hidden[0]: ("2", 1), hidden[1]: ("5", 1), "y": ("", 1)
    }  # fmt: skip
    state = {name: tensor for name, tensor in net.state_dict().items() if name in spec.tensors}
    features = probes({name: tensor.unsqueeze(0) for name, tensor in state.items()})
    (inputs,) = probes.learned_inputs()
    with torch.no_grad():
        assert torch.allclose(features[hidden[0]][0], net[:3](inputs).mean((2, 3)).T, atol=1e-5)
        assert torch.allclose(features[hidden[1]][0], net[:6](inputs).T, atol=1e-5)
    assert_equivariant(lambda w: wsl.encoders.WeightFeatures({}, probes.double()(w)), spec)


def test_constants_outside_the_spec_come_along() -> None:
    net, points = FourierMLP(2, (4,), 1, frequencies=3), coordinate_grid((3, 3))
    spec = wsl.trace(net, points)
    probes = ProbeFeatures(net, spec, points, probes=4)
    assert list(probes.state_dict()) == ["low0", "high0", "inputs.0"]
    weights = {name: tensor.unsqueeze(0) for name, tensor in net.state_dict().items()}
    assert torch.allclose(probes(weights)["y"][0], net(probes.learned_inputs()[0]).T, atol=1e-5)


def test_inputs_stay_in_range_and_learn() -> None:
    siren, grid = Siren(2, (5,), 1), coordinate_grid((4, 4)) * torch.tensor([1.0, 3.0])
    spec = wsl.trace(siren, grid)
    probes = ProbeFeatures(siren, spec, grid, probes=40)
    weights = {name: t.requires_grad_() for name, t in random_weights(spec, 2, dtype=torch.float32).items()}
    optimizer = torch.optim.SGD(probes.parameters(), lr=1e3)
    before = probes.learned_inputs()[0].detach()
    probes(weights)["y"].sum().backward()
    optimizer.step()
    after = probes.learned_inputs()[0].detach()
    assert not torch.equal(before, after)
    assert (after.abs() <= torch.tensor([1.0, 3.0])).all() and after[:, 1].abs().max() > 1
    assert all(tensor.grad is not None and tensor.grad.isfinite().all() for tensor in weights.values())


def test_integer_inputs_are_used_as_they_are() -> None:
    class Lookup(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(4, 3), nn.Linear(3, 2)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.embed(tokens))

    net, tokens = Lookup(), torch.arange(4)
    spec = wsl.trace(net, tokens)
    probes = ProbeFeatures(net, spec, tokens, probes=6)
    assert not any(p.requires_grad for p in probes.parameters())
    assert torch.equal(probes.learned_inputs()[0], torch.tensor([0, 1, 2, 3, 0, 1]))
    assert "y" in probes.sites


def test_an_axis_that_no_module_shows_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    class Inline(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.fc2 = nn.Parameter(torch.randn(5, 2)), nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc2((x @ self.weight.T).relu())

    net, points = Inline(), torch.randn(7, 2)
    spec = wsl.trace(net, points)
    with caplog.at_level(logging.INFO, logger="wsl.nn"):
        probes = ProbeFeatures(net, spec, points, probes=4)
    assert set(probes.sites) == {"y"} and "h1" in caplog.text


def test_refusals() -> None:
    siren, grid = Siren(2, (5,), 1), coordinate_grid((4, 4))
    spec = wsl.trace(siren, grid)
    with pytest.raises(ValueError, match="probes=0"):
        ProbeFeatures(siren, spec, grid, probes=0)
    with pytest.raises(ValueError, match="samples along dimension 0"):
        ProbeFeatures(siren, spec, torch.zeros(0, 2), probes=2)
