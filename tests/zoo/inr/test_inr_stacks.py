"""Stacked networks equal the modules that zoos rebuild, and their gradients equal autograd's."""

import pytest
import torch
from torch.func import functional_call

from wsl.zoo.inr import FourierConfig, SirenConfig
from wsl.zoo.inr._points import PHASES, phase_axes

SHAPE = (5, 7)
ARCHITECTURES = {
    "siren": (SirenConfig(hidden=(6, 5), w0=3.0, first_w0=7.0), 1),
    "siren one layer": (SirenConfig(hidden=(6,), w0=3.0), 1),
    "siren three layers, colour": (SirenConfig(hidden=(6, 4, 5), w0=2.0), 3),
    "fourier": (FourierConfig(hidden=(6, 5), frequencies=4), 1),
    "fourier colour": (FourierConfig(hidden=(6,), frequencies=4), 3),
}


def module_outputs(config, channels, rows, axes):
    """The slow twin: one module a network, float64."""
    module = config.forward_definition(SHAPE, channels).build().double()
    outputs = []
    for row in rows:
        parts = row.split([value.numel() for value in module.parameters()])
        weights = {
            name: part.view(value.shape)
            for (name, value), part in zip(module.named_parameters(), parts, strict=True)
        }
        outputs.append(functional_call(module, weights, (axes.points(),)).T)
    return torch.stack(outputs)


@pytest.fixture(params=ARCHITECTURES, ids=str)
def case(request):
    config, channels = ARCHITECTURES[request.param]
    rows = config.initial_rows(range(4), channels).double()
    return config, channels, rows + 0.1 * torch.randn_like(rows)


@pytest.mark.parametrize("phase", PHASES)
def test_outputs_equal_the_module(case, phase):
    config, channels, rows = case
    axes = phase_axes(SHAPE, phase, torch.float64)
    expected = module_outputs(config, channels, rows, axes)
    torch.testing.assert_close(config.stack(channels).outputs(rows, axes), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("phase", PHASES)
def test_gradient_equals_autograd(case, phase):
    config, channels, rows = case
    axes = phase_axes(SHAPE, phase, torch.float64)
    targets = torch.rand(4, channels, len(axes.points()), dtype=torch.float64)
    leaf = rows.clone().requires_grad_()
    expected = (module_outputs(config, channels, leaf, axes) - targets).square().mean((1, 2))
    (slope,) = torch.autograd.grad(expected.sum(), leaf)
    errors, gradient = config.stack(channels).gradient(rows, axes, targets)
    torch.testing.assert_close(errors, expected.detach(), rtol=0, atol=1e-10)
    torch.testing.assert_close(gradient, slope, rtol=0, atol=1e-10)


def test_initial_rows_depend_on_their_own_seed_alone(case):
    config, channels, _ = case
    together = config.initial_rows([3, 2**62, 8], channels)
    assert torch.equal(together[1], config.initial_rows([2**62], channels)[0])
    assert not torch.equal(together[0], together[2])


def test_scales_of_initial_weights():
    plain = SirenConfig(hidden=(6, 5), initial_scale=1.0, initial_bias_scale=1.0)
    scaled = SirenConfig(hidden=(6, 5), initial_scale=0.25, initial_bias_scale=0.5)
    before, after = (plain.stack(1).tensors(config.initial_rows([1], 1)) for config in (plain, scaled))
    factors = [1, 0.5, 0.25, 0.5, 0.25, 0.5]
    for one, other, factor in zip(before, after, factors, strict=True):
        torch.testing.assert_close(one * factor, other)
