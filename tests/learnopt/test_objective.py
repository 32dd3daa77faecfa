"""What losses count for."""

import pytest
import torch

from wsl.learnopt.estimators import Objective


def count(objective, losses, lost=None, first=None, step=None, horizon=None):
    losses = torch.tensor(losses)
    ones = torch.ones(len(losses))
    lost = torch.zeros(len(losses), dtype=torch.bool) if lost is None else torch.tensor(lost)
    first = ones if first is None else torch.tensor(first)
    step = torch.zeros(len(losses), dtype=torch.int64) if step is None else torch.tensor(step)
    return objective.count(
        losses, lost, first, step, (10 * ones).long() if horizon is None else torch.tensor(horizon)
    )


def test_losses_of_diverged_lanes_are_the_bound():
    counted = count(Objective(bound=5), [1.0, float("nan")], lost=[False, True], first=[2.0, -3.0])
    assert counted.tolist() == [1.0, 15.0]


def test_in_units_of_first_losses_problems_weigh_the_same():
    counted = count(
        Objective(bound=5, normalise=True), [1.0, 50.0, 7.0], [False, False, True], [2.0, 100.0, 3.0]
    )
    assert counted.tolist() == [0.5, 0.5, 5.0]


@pytest.mark.parametrize("late", [0.0, 1.0, 8.0])
def test_weights_of_steps_are_one_on_average_and_rise(late):
    steps = list(range(2000))
    counted = count(Objective(late=late), [1.0] * 2000, step=steps, horizon=[2000] * 2000)
    assert float(counted.mean()) == pytest.approx(1, rel=0.01)
    assert counted[-1] == pytest.approx(late + 1) and counted.diff().min() >= 0


def test_a_gradient_does_not_pass_a_diverged_lane():
    losses = torch.tensor([1.0, 2.0], requires_grad=True)
    lost = torch.tensor([False, True])
    counted = Objective().count(losses, lost, torch.ones(2), torch.zeros(2), torch.ones(2))
    counted.sum().backward()
    assert losses.grad.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("faulty", [{"bound": 1.0}, {"bound": float("nan")}, {"late": -1.0}])
def test_numbers_that_mean_nothing_are_refused(faulty):
    with pytest.raises(ValueError, match="Objective: bound is"):
        Objective(**faulty)
