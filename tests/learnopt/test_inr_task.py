"""Coordinate networks learn the image of their problem."""

import pytest
import torch

from wsl.learnopt import Adam, advance, start
from wsl.learnopt.tasks import InrFitting, Task
from wsl.models import Siren
from wsl.zoo.images import DigitsImages

SEEDS = torch.tensor([3, 8, 3])


@pytest.fixture
def task():
    return InrFitting(hidden=(8, 6), limit=50)


def test_the_stack_is_each_network(task):
    task.to(dtype=torch.float64)
    params, batch = task.init(SEEDS), task.batch(SEEDS, torch.tensor([0, 1, 5]))
    torch.testing.assert_close(task.values(params, batch), Task.values(task, params, batch))
    grads = torch.func.vmap(torch.func.grad(task.loss))(params, batch)
    for name, grad in task.values_and_grads(params, batch)[1].items():
        torch.testing.assert_close(grad, grads[name])


def test_pixels_are_those_of_the_image(task):
    images = torch.from_numpy(DigitsImages().load().pixels)[task.image(SEEDS)] * 2 - 1
    assert task.image(torch.arange(40)).unique().numel() > 15
    points, pixels = task.batch(SEEDS, torch.tensor([0, 1, 5]))
    places = ((points + 1) / 2 * 7).round().long()
    for lane in range(3):
        row, column = places[lane].unbind(-1)
        torch.testing.assert_close(images[lane][row, column], pixels[lane][:, 0])
    assert not torch.equal(points[0], points[2])
    whole, all_pixels = task.batch(SEEDS, SEEDS, "test")
    assert whole.shape == (3, 64, 2)
    torch.testing.assert_close(all_pixels[..., 0], images.flatten(1))


def test_weights_begin_as_sirens_do(task):
    drawn = task.init(torch.arange(100))["layers.1.weight"]
    bound = (6 / 8) ** 0.5 / 30
    assert drawn.abs().max() <= bound
    assert drawn.var() == pytest.approx(bound**2 / 3, rel=0.1)
    assert isinstance(task.module, Siren)


def test_training_lowers_the_loss():
    task, rule = InrFitting(limit=50), Adam(3e-3)
    with torch.no_grad():
        losses = advance(task, rule, start(task, rule, SEEDS, 1000), 60).losses
    assert (losses[-5:].mean(0) < 0.2 * losses[0]).all()
