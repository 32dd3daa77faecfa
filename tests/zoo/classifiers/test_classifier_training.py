"""Networks that train together equal networks that train alone, and those of a plain loop of torch."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from wsl.models import ACTIVATIONS as MODEL_ACTIVATIONS
from wsl.zoo import ForwardDefinition
from wsl.zoo.classifiers._data import LabelledImages, NetworkImages
from wsl.zoo.classifiers._initial import INITIALISATIONS, initial_row
from wsl.zoo.classifiers._layers import ACTIVATIONS, drop
from wsl.zoo.classifiers._recipe import Hyperparameters
from wsl.zoo.classifiers._small_cnn_stack import SmallCnnStack
from wsl.zoo.classifiers._train import evaluate, initial_rows, network_images, train_networks
from wsl.zoo.training import OPTIMIZERS, NetworkPlan, StackedDropout, StackedOptimizer

CLASSES = 3
SMALL = ForwardDefinition(
    "wsl.models:SmallCNN",
    {
        "in_channels": 2,
        "channels": [4, 5],
        "classes": CLASSES,
        "activation": "tanh",
        "kernel_size": 3,
        "stride": 2,
    },
)


def images(count=40, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.rand(count, 9, 8, 2, generator=generator, dtype=torch.float64) * 2 - 1
    return LabelledImages(pixels, torch.randint(CLASSES, (count,), generator=generator))


def plans(**changes):
    """Five networks that differ in everything but the batch size."""
    names, found = list(OPTIMIZERS), []
    for model in range(5):
        drawn = {
            "learning_rate": 0.01 * (model + 1),
            "weight_decay": 0.01 * model,
            "dropout": [0.0, 0.25, 0.5][model % 3],
            "optimizer": names[model % len(names)],
            "initialisation": INITIALISATIONS[model],
            "initial_scale": 1 + model / 3,
            "train_fraction": 1 - 0.2 * model,
            "label_noise": 0.1 * model,
            "batch_size": 7,
            "epochs": 4 if model < 2 else 3,
        } | changes
        found.append(NetworkPlan(model, 11, SMALL, Hyperparameters(**drawn), (0, 1, drawn["epochs"])))
    return found


def test_training_together_equals_training_alone():
    stack, data, networks = SmallCnnStack(SMALL), images(), plans()
    together = train_networks(stack, networks, data, CLASSES)
    assert [len(found) for found in together] == [3] * 5
    for plan, found in zip(networks, together, strict=True):
        (alone,) = train_networks(stack, [plan], data, CLASSES)
        for one, other in zip(found, alone, strict=True):
            assert one.row.dtype == torch.float64
            assert (one.epoch, one.updates) == (other.epoch, other.updates)
            assert (one.row - other.row).abs().max() <= 1e-10
        assert (found[0].row - found[-1].row).abs().max() > 1e-3


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
def test_training_equals_the_loop_of_torch(optimizer, activation):
    data = images()
    forward = ForwardDefinition(SMALL.factory, {**SMALL.arguments, "activation": activation})
    plan = plans(optimizer=optimizer, dropout=0.0)[3]
    found = train_networks(SmallCnnStack(forward), [plan], data, CLASSES)[0][-1].row
    drawn, seen = plan.hyperparameters, network_images(plan, data.labels, CLASSES)
    module = forward.build().double()
    torch.nn.utils.vector_to_parameters(
        initial_rows(SmallCnnStack(forward), [plan])[0].double(), module.parameters()
    )
    rate, decay = drawn.learning_rate, drawn.weight_decay
    peer = {
        "sgd": lambda p: torch.optim.SGD(p, rate, weight_decay=decay),
        "momentum": lambda p: torch.optim.SGD(p, rate, 0.9, weight_decay=decay),
        "adam": lambda p: torch.optim.Adam(p, rate, weight_decay=decay),
        "rmsprop": lambda p: torch.optim.RMSprop(p, rate, weight_decay=decay),
    }[optimizer](module.parameters())
    for _ in range(seen.steps(drawn.epochs, drawn.batch_size)):
        rows, labels = seen.next_batch(drawn.batch_size)
        loss = F.cross_entropy(module(data.pixels[rows].permute(0, 3, 1, 2)), torch.from_numpy(labels))
        peer.zero_grad()
        loss.backward()
        peer.step()
    wanted = torch.nn.utils.parameters_to_vector(module.parameters())
    assert (found - wanted).abs().max() <= 1e-9


class Recorded(StackedDropout):
    """Keeps all that it gives."""

    def kept(self, networks, shape):
        self.given.append(super().kept(networks, shape))
        return self.given[-1]


class Factor(nn.Module):
    def __init__(self, factors):
        super().__init__()
        self.factors = factors

    def forward(self, x):
        return x * self.factors.pop(0)


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize("probability", [0.0, 0.5])
def test_gradients_by_hand_equal_those_of_autograd(activation, probability):
    data = images()
    forward = ForwardDefinition(SMALL.factory, {**SMALL.arguments, "activation": activation})
    stack = SmallCnnStack(forward)
    rows = initial_rows(stack, plans()).double()
    taken = np.random.default_rng(0).integers(0, 40, (5, 6))
    rates = [0.0, probability, probability / 2, probability, 0.0]
    dropout = Recorded(rates, [[seed] for seed in range(5)])
    dropout.given = []
    found = stack.gradient(rows, stack.batch(data.pixels, taken), data.labels[taken], dropout)
    assert len(dropout.given) == (2 if probability else 0)
    for network in range(5):
        module = forward.build().double()
        nn.utils.vector_to_parameters(rows[network], module.parameters())
        kept = [masks[network].movedim(-1, 0).double() / (1 - rates[network]) for masks in dropout.given]
        module.dropout = Factor(kept or [1, 1])
        outputs = module(data.pixels[taken[network]].permute(0, 3, 1, 2))
        F.cross_entropy(outputs, data.labels[taken[network]]).backward()
        wanted = nn.utils.parameters_to_vector([parameter.grad for parameter in module.parameters()])
        assert (found[network] - wanted).abs().max() <= 1e-14
        assert wanted.abs().max() > 1e-3


def test_activations_are_those_of_the_models():
    assert set(ACTIVATIONS) == set(MODEL_ACTIVATIONS)
    x = torch.linspace(-2, 2, 9)
    for name, activation in ACTIVATIONS.items():
        torch.testing.assert_close(activation.apply(x.clone()), MODEL_ACTIVATIONS[name]()(x))


def test_networks_see_each_of_their_images_once_an_epoch():
    labels = torch.arange(20) % CLASSES
    seen = NetworkImages(labels, CLASSES, 0.5, 0.0, np.random.default_rng(3))
    assert len(seen) == 10
    batches = [seen.next_batch(4)[0] for _ in range(seen.steps(2, 4))]
    assert len(batches) == 5
    epochs = np.split(np.concatenate(batches), 2)
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(seen.rows)
    assert epochs[0].tolist() != epochs[1].tolist()
    assert (labels.numpy()[seen.rows] == seen.labels).all()


@pytest.mark.parametrize(("fraction", "noise"), [(0.001, 0.0), (1.0, 1.0), (0.5, 0.4)])
def test_fractions_and_label_noise(fraction, noise):
    labels = torch.zeros(200, dtype=torch.int64)
    seen = NetworkImages(labels, 10, fraction, noise, np.random.default_rng(0))
    assert len(seen) == max(1, 200 * fraction)
    assert (seen.labels != 0).mean() == pytest.approx(noise * 0.9, abs=0.06)
    assert len(seen.next_batch(64)[0]) == 64
    assert (labels == 0).all(), "labels are the zoo's"


def test_dropout_has_its_rate_and_keeps_the_mean():
    dropout = StackedDropout([0.0, 0.25, 0.9], [[0], [1], [2]])
    x = torch.ones(50, 30, 6, 5).contiguous(memory_format=torch.channels_last)
    parts = drop(x, 3, dropout).unflatten(1, (3, 10)).unbind(1)
    assert torch.equal(parts[0], torch.ones_like(parts[0]))
    for part, rate in zip(parts[1:], (0.25, 0.9), strict=True):
        assert (part == 0).double().mean() == pytest.approx(rate, abs=0.02)
        assert part.mean() == pytest.approx(1, abs=0.08)
    assert not torch.equal(drop(x, 3, dropout), drop(x, 3, dropout))
    assert drop(x, 3, None) is x


@pytest.mark.parametrize("initialisation", INITIALISATIONS)
def test_initial_weights(initialisation):
    shapes = {"conv.weight": (40, 30, 3, 3), "conv.bias": (40,), "norm.weight": (40,)}
    row = initial_row(shapes, initialisation, 2.0, torch.Generator().manual_seed(1))
    weight, bias, factor = row.split([40 * 270, 40, 40])
    spreads = {
        "default": (1 / 810) ** 0.5,
        "glorot_normal": (2 / (270 + 360)) ** 0.5,
        "he_normal": (2 / 270) ** 0.5,
        "normal": 0.05,
        "orthogonal": (1 / 270) ** 0.5,
        "truncated_normal": 0.044,
    }
    assert weight.std() == pytest.approx(2 * spreads[initialisation], rel=0.03)
    assert (bias == 0).all() == (initialisation != "default")
    assert (factor == 1).all()


def test_evaluation_equals_the_module():
    data = images(30)
    stack = SmallCnnStack(SMALL)
    rows = initial_rows(stack, plans()).double()
    rows[1, 0] = float("nan")
    taken = np.random.default_rng(0).permutation(30)[:20]
    loss, accuracy = evaluate(stack, rows, data.pixels, taken, data.labels.numpy()[taken])
    assert np.isnan(loss[1])
    assert accuracy[1] == 0
    module = SMALL.build().double()
    torch.nn.utils.vector_to_parameters(rows[4], module.parameters())
    outputs = module(data.pixels[taken].permute(0, 3, 1, 2))
    assert loss[4] == pytest.approx(F.cross_entropy(outputs, data.labels[taken]).item(), abs=1e-12)
    assert accuracy[4] == pytest.approx(float((outputs.argmax(1) == data.labels[taken]).double().mean()))


def test_a_network_that_diverges_leaves_the_others_alone():
    stack, data, networks = SmallCnnStack(SMALL), images(), plans(optimizer="sgd", dropout=0.0)
    broken = plans(optimizer="sgd", dropout=0.0, learning_rate=1e200)
    mixed = train_networks(stack, [networks[0], broken[1], *networks[2:]], data, CLASSES)
    plain = train_networks(stack, networks, data, CLASSES)
    for number, (some, others) in enumerate(zip(mixed, plain, strict=True)):
        for one, other in zip(some, others, strict=True):
            assert number == 1 or (one.row - other.row).abs().max() <= 1e-10
    assert not mixed[1][-1].row.isfinite().all()


def test_stacked_optimizer_takes_fewer_rows():
    rows = torch.ones(3, 2, dtype=torch.float64)
    optimizer = StackedOptimizer(["sgd"] * 3, [0.1, 0.2, 0.3], [0.0] * 3, rows)
    optimizer.step(torch.ones(3, 2, dtype=torch.float64))
    optimizer.step(torch.ones(2, 2, dtype=torch.float64))
    np.testing.assert_allclose(rows, [[0.8, 0.8], [0.6, 0.6], [0.7, 0.7]])
