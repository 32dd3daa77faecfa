"""A rescaled task is the same function of other parameters."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from wsl.learnopt import SGD, advance, start
from wsl.learnopt.tasks import MlpImages, ModuleTask, Rescaled

SEEDS = torch.tensor([3, 8, 3])


@pytest.fixture(params=["fast", "generic"])
def tasks(request):
    if request.param == "fast":
        task = MlpImages(limit=100)
    else:
        inputs = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
        task = ModuleTask(nn.Linear(4, 2), F.mse_loss, (inputs, inputs[:, :2]))
    task.to(dtype=torch.float64)
    return task, Rescaled(task, 0.7)


def test_it_begins_as_the_same_function_with_gradients_of_the_inverse_scale(tasks):
    task, rescaled = tasks
    steps, factors = torch.tensor([0, 4, 1]), rescaled.factors(SEEDS)
    params, other = task.init(SEEDS), rescaled.init(SEEDS)
    values, grads = task.values_and_grads(params, task.batch(SEEDS, steps))
    found, scaled = rescaled.values_and_grads(other, rescaled.batch(SEEDS, steps))
    torch.testing.assert_close(found, values)
    for name, grad in grads.items():
        factor = factors[name].view(-1, *(1 for _ in grad.shape[1:]))
        torch.testing.assert_close(scaled[name] * factor, grad)
        torch.testing.assert_close(other[name], params[name] * factor)
    slow = torch.func.vmap(rescaled.loss)(other, rescaled.batch(SEEDS, steps))
    torch.testing.assert_close(slow, values)


def test_factors_are_log_normal_one_of_each_lane_and_tensor(tasks):
    factors = tasks[1].factors(torch.arange(2000))
    assert set(factors) == set(tasks[0].init(SEEDS))
    logs = torch.stack(list(factors.values())).log()
    assert logs.mean(1).abs().max() < 4 * 0.7 / 2000**0.5
    assert logs.std(1).sub(0.7).abs().max() < 0.05
    assert torch.corrcoef(logs).sub(torch.eye(len(logs))).abs().max() < 0.1


def test_it_trains(tasks):
    task = tasks[1].to(dtype=torch.float32)
    assert tasks[0].dtype == torch.float32
    with torch.no_grad():
        losses = advance(task, SGD(0.01), start(task, SGD(), SEEDS, 100), 10).losses
    assert losses.isfinite().all()
    assert task.spec == tasks[0].spec
