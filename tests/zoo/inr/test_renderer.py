"""Rendering of any weights: as the zoo's own, differentiable, in any type, and refusals."""

import pytest
import tiny_zoo
import torch

from wsl.zoo import ForwardDefinition, Zoo, ZooError, render
from wsl.zoo.inr import Renderer

FOURIER = ForwardDefinition("wsl.models:FourierMLP", {"hidden": [4], "frequencies": 3}, grid=(4, 5))


def weights_of(definition, count=3):
    generator = torch.Generator().manual_seed(0)
    shapes = {name: tensor.shape for name, tensor in definition.build().state_dict().items()}
    return {name: torch.randn(count, *shape, generator=generator) for name, shape in shapes.items()}


def test_it_shows_what_the_zoo_renders(zoo_path):
    zoo = Zoo.open(zoo_path)
    assert torch.equal(Renderer(zoo.forward).show(zoo.weights([0, 7])), render(zoo, [0, 7]))


def test_each_network_is_run_by_its_own_weights():
    weights, module = weights_of(FOURIER), FOURIER.build()
    rendered = Renderer(FOURIER)(weights)
    for i, image in enumerate(rendered):
        module.load_state_dict({name: tensor[i] for name, tensor in weights.items()})
        torch.testing.assert_close(image.flatten(), module(FOURIER.points()).flatten())
    assert rendered.shape == (3, 4, 5)


def test_gradients_reach_the_weights():
    renderer = Renderer(tiny_zoo.FORWARD).double()
    weights = {name: tensor.double() for name, tensor in weights_of(tiny_zoo.FORWARD).items()}
    last = weights["layers.2.bias"].requires_grad_()
    renderer(weights)[1].sum().backward()
    assert torch.equal(last.grad.flatten(), torch.tensor([0.0, 16.0, 0.0], dtype=torch.float64))


def test_it_adds_nothing_to_checkpoints_and_its_constants_go_along():
    renderer = Renderer(FOURIER).double()
    assert not renderer.state_dict() and not list(renderer.parameters())
    weights = {name: tensor.double() for name, tensor in weights_of(FOURIER).items()}
    assert renderer(weights).dtype == torch.float64


def test_colours_are_made_where_the_networks_are():
    definition = ForwardDefinition(
        "wsl.models:Siren", {"hidden": [4], "out_features": 3}, (4, 5), (0.1, 0.2, 0.3), (1.0, 2.0, 3.0), 3
    )
    weights = {name: tensor.to("meta") for name, tensor in weights_of(definition).items()}
    assert Renderer(definition).to("meta")(weights).shape == (3, 4, 5, 3)


def test_other_networks_are_refused():
    with pytest.raises(ZooError, match="no coordinate grid"):
        Renderer(ForwardDefinition("wsl.models:SmallCNN"))
