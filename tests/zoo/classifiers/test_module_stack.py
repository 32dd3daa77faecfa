"""Stacked networks of any module equal single ones, with their dropout and their running statistics."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from wsl.zoo import ForwardDefinition
from wsl.zoo.classifiers._data import LabelledImages
from wsl.zoo.classifiers._module_stack import ModuleStack
from wsl.zoo.classifiers._recipe import Hyperparameters
from wsl.zoo.classifiers._train import evaluate, initial_rows, network_images, train_networks
from wsl.zoo.training import NetworkPlan, StackedDropout

CLASSES = 3
SMALL = {"in_channels": 2, "channels": [4, 5], "classes": CLASSES, "kernel_size": 3, "stride": 2}
PARK = {
    "channels": [2, 4, 3, 4],
    "kernel_size": [3, 3, 3],
    "activation": ["gelu", "relu", "tanh"],
    "stride": [1, 1, 1],
    "padding": [1, 1, 1],
    "residual": [-1, -1, 0],
    "classes": CLASSES,
}
FORWARDS = {
    "small_cnn": ForwardDefinition("wsl.models:SmallCNN", SMALL),
    "park_cnn": ForwardDefinition("wsl.models:ParkCNN", PARK),
    "mlp": ForwardDefinition("wsl.models:MLP", {"in_features": 144, "hidden": [6, 5], "classes": CLASSES}),
    "layer_norm": ForwardDefinition(
        "wsl.models:SmallResNet",
        {"in_channels": 2, "width": 2, "blocks": [1, 1], "classes": CLASSES, "norm": "layer"},
    ),
    "vit": ForwardDefinition(
        "wsl.models:SmallViT",
        {
            "in_channels": 2,
            "height": 9,
            "width": 8,
            "patch": 1,
            "d_model": 4,
            "blocks": 1,
            "classes": CLASSES,
        },
    ),
    "batch_norm": ForwardDefinition(
        "wsl.models:ResNet18", {"in_channels": 2, "classes": CLASSES, "width": 2}
    ),
}


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(30, 9, 8, 2, generator=generator, dtype=torch.float64) * 2 - 1
    return LabelledImages(pixels, torch.randint(CLASSES, (30,), generator=generator))


def plans(forward, **changes):
    """Networks that differ in rate, data, dropout and epochs."""
    found = []
    for model, epochs in enumerate((3, 2, 2)):
        drawn = Hyperparameters(
            0.01 * (model + 1),
            0.01,
            [0.0, 0.5, 0.25][model],
            "adam",
            "default",
            1.0,
            1 - 0.2 * model,
            7,
            0.0,
            epochs,
        )
        drawn = Hyperparameters(**{**vars(drawn), **changes})
        found.append(NetworkPlan(model, 5, forward, drawn, (1, epochs)))
    return found


@pytest.mark.parametrize("name", list(FORWARDS))
def test_training_together_equals_training_alone(name, data):
    stack, networks = ModuleStack(FORWARDS[name]), plans(FORWARDS[name])
    together = train_networks(stack, networks, data, CLASSES)
    for plan, found in zip(networks, together, strict=True):
        (alone,) = train_networks(stack, [plan], data, CLASSES)
        for one, other in zip(found, alone, strict=True):
            assert (one.row - other.row).abs().max() <= 1e-9
        assert (found[0].row - found[-1].row).abs().max() > 1e-3


@pytest.mark.parametrize("name", list(FORWARDS))
def test_training_equals_the_loop_of_torch(name, data):
    forward = FORWARDS[name]
    stack, plan = ModuleStack(forward), plans(forward, dropout=0.0)[1]
    networks = plans(forward, dropout=0.0)
    found = train_networks(stack, networks, data, CLASSES)[1][-1].row
    seen, module = network_images(plan, data.labels, CLASSES), forward.build().double().train()
    start = stack.tensors(initial_rows(stack, [plan]).double())
    module.load_state_dict({name: tensor[0] for name, tensor in start.items()}, strict=False)
    drawn = plan.hyperparameters
    adam = torch.optim.Adam(module.parameters(), drawn.learning_rate, weight_decay=drawn.weight_decay)
    for _ in range(seen.steps(drawn.epochs, drawn.batch_size)):
        rows, labels = seen.next_batch(drawn.batch_size)
        loss = F.cross_entropy(module(data.pixels[rows].permute(0, 3, 1, 2)), torch.from_numpy(labels))
        adam.zero_grad()
        loss.backward()
        adam.step()
    wanted = module.state_dict()
    for key, tensor in stack.tensors(found[None]).items():
        assert (tensor[0] - wanted[key]).abs().max() <= 1e-8, key
    assert set(stack.tensors(found[None])) == {key for key in wanted if "num_batches" not in key}
    loss, accuracy = evaluate(stack, found[None], data.pixels, np.arange(30), data.labels.numpy())
    outputs = module.eval()(data.pixels.permute(0, 3, 1, 2))
    assert loss[0] == pytest.approx(F.cross_entropy(outputs, data.labels).item(), abs=1e-7)
    assert accuracy[0] == pytest.approx((outputs.argmax(1) == data.labels).double().mean().item())


class Recorded(StackedDropout):
    """Keeps all that it gives."""

    def factors(self, networks, shape, dtype):
        self.given.append(super().factors(networks, shape, dtype))
        return self.given[-1]


class Factor(nn.Module):
    def __init__(self, factors):
        super().__init__()
        self.factors = factors

    def forward(self, x):
        return x * self.factors.pop(0)


def test_each_dropout_module_drops(data):
    forward = FORWARDS["small_cnn"]
    stack, networks = ModuleStack(forward), plans(forward)
    rows = initial_rows(stack, networks).double()
    taken = np.random.default_rng(0).integers(0, 30, (3, 5))
    dropout = Recorded([0.0, 0.5, 0.25], [[0], [1], [2]])
    dropout.given = []
    found = stack.gradient(rows, stack.batch(data.pixels, taken), data.labels[taken], dropout)
    assert [factors.shape[2:] for factors in dropout.given] == [(4, 4, 3), (5, 1, 1)]
    for network in range(3):
        module = forward.build().double()
        nn.utils.vector_to_parameters(rows[network], module.parameters())
        module.dropout = Factor([factors[network] for factors in dropout.given])
        outputs = module(data.pixels[taken[network]].permute(0, 3, 1, 2))
        F.cross_entropy(outputs, data.labels[taken[network]]).backward()
        wanted = nn.utils.parameters_to_vector([parameter.grad for parameter in module.parameters()])
        assert (found[network] - wanted).abs().max() <= 1e-12
    assert (dropout.given[0][0] == 1).all()
    assert set(dropout.given[0][1].unique().tolist()) == {0.0, 2.0}
