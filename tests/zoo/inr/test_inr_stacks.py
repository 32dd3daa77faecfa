"""Stacked networks equal the modules that zoos rebuild, and their gradients equal autograd's."""

import pytest
import torch
from torch.func import functional_call

from wsl.zoo.inr import FourierConfig, SirenConfig
from wsl.zoo.inr._points import PHASES, Axes, PointSets, phase_axes

SHAPE = (5, 7)
ARCHITECTURES = {
    "siren": (SirenConfig(hidden=(6, 5), w0=3.0, first_w0=7.0), 1),
    "siren one layer": (SirenConfig(hidden=(6,), w0=3.0), 1),
    "siren three layers, colour": (SirenConfig(hidden=(6, 4, 5), w0=2.0), 3),
    "siren in space": (SirenConfig(hidden=(6, 5), w0=3.0, first_w0=5.0), 2),
    "fourier": (FourierConfig(hidden=(6, 5), frequencies=4), 1),
    "fourier colour": (FourierConfig(hidden=(6,), frequencies=4), 3),
}


def module_outputs(config, channels, rows, points):
    """The slow twin: one module a network, float64."""
    coordinates = points.coordinates().expand(len(rows), -1, -1)
    module = config.forward_definition((4,) * coordinates.shape[-1], channels).build().double()
    outputs = []
    for row, own in zip(rows, coordinates, strict=True):
        parts = row.split([value.numel() for value in module.parameters()])
        weights = {
            name: part.view(value.shape)
            for (name, value), part in zip(module.named_parameters(), parts, strict=True)
        }
        outputs.append(functional_call(module, weights, (own,)).T)
    return torch.stack(outputs)


def point_sets(networks, inputs):
    return PointSets(torch.rand(networks, 11, inputs, dtype=torch.float64) * 2 - 1)


POINTS = {
    **{f"grid {phase}": phase_axes(SHAPE, phase, torch.float64) for phase in PHASES},
    "shared points": point_sets(1, 2),
    "own points": point_sets(4, 2),
    "shared points in space": point_sets(1, 3),
    "own points in space": point_sets(4, 3),
}


@pytest.fixture(params=ARCHITECTURES, ids=str)
def architecture(request):
    return ARCHITECTURES[request.param]


@pytest.fixture(params=POINTS, ids=str)
def case(request, architecture):
    config, channels = architecture
    points = POINTS[request.param]
    inputs = points.coordinates().shape[-1]
    rows = config.initial_rows(range(4), inputs, channels).double()
    return config.stack(inputs, channels), points, rows + 0.1 * torch.randn_like(rows), config, channels


def test_outputs_equal_the_module(case):
    stack, points, rows, config, channels = case
    expected = module_outputs(config, channels, rows, points)
    torch.testing.assert_close(stack.outputs(rows, points), expected, rtol=0, atol=1e-10)


def test_gradient_equals_autograd(case):
    stack, points, rows, config, channels = case
    leaf = rows.clone().requires_grad_()
    outputs = module_outputs(config, channels, leaf, points)
    targets = torch.rand_like(outputs)
    expected = (outputs - targets).square().mean((1, 2))
    (slope,) = torch.autograd.grad(expected.sum(), leaf)
    errors, gradient = stack.gradient(rows, points, targets)
    torch.testing.assert_close(errors, expected.detach(), rtol=0, atol=1e-10)
    torch.testing.assert_close(gradient, slope, rtol=0, atol=1e-10)


def test_points_of_some_networks():
    which = torch.tensor([True, False, True, False])
    own, shared, grid = (POINTS[name] for name in ("own points", "shared points", "grid (0, 0)"))
    assert torch.equal(own.keep(which).positions, own.positions[[0, 2]])
    assert shared.keep(which) is shared
    assert isinstance(grid.keep(which), Axes)


def test_initial_rows_depend_on_their_own_seed_alone(architecture):
    config, channels = architecture
    together = config.initial_rows([3, 2**62, 8], 2, channels)
    assert torch.equal(together[1], config.initial_rows([2**62], 2, channels)[0])
    assert not torch.equal(together[0], together[2])


def test_scales_of_initial_weights():
    plain = SirenConfig(hidden=(6, 5), initial_scale=1.0, initial_bias_scale=1.0)
    scaled = SirenConfig(hidden=(6, 5), initial_scale=0.25, initial_bias_scale=0.5)
    before, after = (config.stack(2, 1).tensors(config.initial_rows([1], 2, 1)) for config in (plain, scaled))
    factors = [1, 0.5, 0.25, 0.5, 0.25, 0.5]
    for one, other, factor in zip(before, after, factors, strict=True):
        torch.testing.assert_close(one * factor, other)
