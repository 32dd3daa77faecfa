"""Rosenbrock's function has its optimum at ones, and its gradient is scipy's."""

import pytest
import torch
from scipy.optimize import rosen, rosen_der

from wsl.learnopt.tasks import Rosenbrock, Task

SEEDS = torch.arange(5)


@pytest.mark.parametrize("size", [2, 5])
def test_values_and_gradients_are_scipys(size):
    task = Rosenbrock(size).to(dtype=torch.float64)
    params, batch = task.init(SEEDS), task.batch(SEEDS, SEEDS)
    values, grads = task.values_and_grads(params, batch)
    for lane in range(5):
        point = params["weight"][lane, 0].numpy()
        assert values[lane].item() == pytest.approx(rosen(point))
        torch.testing.assert_close(grads["weight"][lane, 0], torch.from_numpy(rosen_der(point)))
    torch.testing.assert_close(values, Task.values(task, params, batch))
    assert task.values({"weight": torch.ones(5, 1, size)}, batch).tolist() == [0] * 5


def test_points_begin_in_the_square():
    points = Rosenbrock().init(torch.arange(1000))["weight"]
    assert -2 <= points.min() < -1.9
    assert 1.9 < points.max() < 2


def test_one_variable_is_too_few():
    with pytest.raises(ValueError, match="at least 2 variables"):
        Rosenbrock(1)
