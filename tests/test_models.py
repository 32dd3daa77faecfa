"""Coordinate networks: their definition, initial weights and names."""

import math

import pytest
import torch

from wsl.models import FourierMLP, Sine, Siren, coordinate_grid, fourier_features


def test_siren_computes_its_definition():
    net = Siren(2, (5, 4), 3, w0=7.0, first_w0=11.0, generator=torch.Generator().manual_seed(0)).double()
    x = torch.rand(6, 2, dtype=torch.float64)
    w = {name: value.detach() for name, value in net.named_parameters()}
    h = torch.sin(11 * (x @ w["layers.0.weight"].T + w["layers.0.bias"]))
    h = torch.sin(7 * (h @ w["layers.1.weight"].T + w["layers.1.bias"]))
    torch.testing.assert_close(net(x), h @ w["layers.2.weight"].T + w["layers.2.bias"])


def test_siren_initial_weights_follow_the_paper():
    net = Siren(2, (400, 400), 1, w0=30.0, generator=torch.Generator().manual_seed(0))
    bounds = {
        "layers.0.weight": 1 / 2,
        "layers.1.weight": math.sqrt(6 / 400) / 30,
        "layers.2.weight": math.sqrt(6 / 400) / 30,
    }
    for name, bound in bounds.items():
        largest = net.get_parameter(name).abs().max().item()
        assert 0.95 * bound < largest <= bound, name


@pytest.mark.parametrize("factory", [Siren, FourierMLP])
def test_initial_weights_come_from_the_generator_alone(factory):
    before = torch.random.get_rng_state()
    first = factory(generator=torch.Generator().manual_seed(3)).state_dict()
    assert torch.equal(before, torch.random.get_rng_state())
    again = factory(generator=torch.Generator().manual_seed(3)).state_dict()
    other = factory(generator=torch.Generator().manual_seed(4)).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("factory", [Siren, FourierMLP])
def test_state_dict_holds_layers_only(factory):
    names = [f"layers.{i}.{kind}" for i in range(3) for kind in ("weight", "bias")]
    assert list(factory(hidden=(8, 8)).state_dict()) == names


def test_hooks_see_hidden_activations():
    net, seen = Siren(hidden=(8, 8)), []
    for sine in net.sines:
        assert isinstance(sine, Sine)
        sine.register_forward_hook(lambda _module, _args, output: seen.append(output))
    net(torch.rand(5, 2))
    assert [tuple(h.shape) for h in seen] == [(5, 8), (5, 8)]
    assert all(h.abs().max() <= 1 for h in seen)


def test_fourier_frequencies_are_constants_of_the_arguments():
    same = [FourierMLP(frequency_seed=5).frequency_matrix for _ in range(2)]
    assert torch.equal(*same)
    assert not torch.equal(same[0], FourierMLP(frequency_seed=6).frequency_matrix)
    x = torch.rand(7, 2)
    features = fourier_features(x, FourierMLP(frequencies=9).frequency_matrix)
    assert features.shape == (7, 18)
    torch.testing.assert_close((features**2).sum(-1), torch.full((7,), 9.0))


def test_coordinate_grid_convention():
    grid = coordinate_grid((3, 5))
    assert grid.shape == (15, 2)
    assert grid[0].tolist() == [-1, -1]
    assert grid[1].tolist() == [-1, -0.5]
    assert grid[5].tolist() == [0, -1]
    assert grid[-1].tolist() == [1, 1]
    shifted = coordinate_grid((3, 5), offset=(0.5, 0))
    torch.testing.assert_close(shifted - grid, torch.tensor([0.5, 0.0]).expand(15, 2))
    assert coordinate_grid((1, 2)).tolist() == [[0, -1], [0, 1]]


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="at least one hidden layer"):
        Siren(hidden=())
    with pytest.raises(ValueError, match="positive"):
        coordinate_grid((0, 4))
