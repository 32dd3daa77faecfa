"""Lanes advance as plain loops do, and begin anew alone."""

import pytest
import torch

from wsl.learnopt._lanes import advance, restart, start, step_lanes
from wsl.learnopt._random import next_seeds
from wsl.learnopt.optimizers import SGD, Adam, PerLane
from wsl.learnopt.tasks import Quadratics


@pytest.fixture
def task():
    return Quadratics(5, noise=0.1).to(dtype=torch.float64)


def plain_loop(task, seed, steps):
    """Torch's Adam on the problem of one seed."""
    seeds = torch.tensor([seed])
    weight = task.init(seeds)["weight"].requires_grad_()
    optimizer, losses = torch.optim.Adam([weight], lr=0.01), []
    for step in range(steps):
        (loss,) = task.values({"weight": weight}, task.batch(seeds, torch.tensor([step])))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return weight.detach()[0], torch.stack(losses)


def test_a_lane_trains_as_a_plain_loop_does(task):
    seeds = torch.tensor([3, 8, 5])
    with torch.no_grad():
        done = advance(task, Adam(0.01), start(task, Adam(0.01), seeds, 100), 12)
    for lane, seed in enumerate(seeds.tolist()):
        weight, losses = plain_loop(task, seed, 12)
        torch.testing.assert_close(done.lanes.params["weight"][lane], weight, rtol=0, atol=1e-13)
        torch.testing.assert_close(done.losses[:, lane], losses, rtol=0, atol=1e-13)
    assert not done.ended.any()
    assert not done.diverged.any()


def test_lanes_begin_anew_at_their_horizon(task):
    seeds, optimizer = torch.tensor([3, 8]), Adam(0.01)
    lanes = start(task, optimizer, seeds, torch.tensor([3, 5]))
    with torch.no_grad():
        done = advance(task, optimizer, lanes, 5)
    assert done.ended.nonzero().tolist() == [[2, 0], [4, 1]]
    assert done.lanes.step.tolist() == [2, 0]
    assert done.lanes.horizon.tolist() == [3, 5]
    assert torch.equal(done.lanes.seeds, next_seeds(seeds))
    alone = start(task, optimizer, next_seeds(seeds[:1]), 3)
    with torch.no_grad():
        again = advance(task, optimizer, alone, 2)
    torch.testing.assert_close(done.losses[3:, 0], again.losses[:, 0], rtol=0, atol=1e-14)
    assert torch.equal(done.lanes.params["weight"][1], task.init(next_seeds(seeds))["weight"][1])
    assert not done.lanes.state["mean"][1].any()


def test_horizons_of_new_problems_follow_from_their_seeds(task):
    lanes = start(task, SGD(), torch.arange(4), 1)
    done = advance(task, SGD(), lanes, 1, horizons=lambda seeds: seeds % 7 + 2)
    assert torch.equal(done.lanes.horizon, next_seeds(torch.arange(4)) % 7 + 2)


def test_a_lane_that_diverges_begins_anew_and_the_others_do_not_notice(task):
    """Lane 1 has an absurd learning rate: the others' bytes are those of lanes that all behave."""
    seeds, steps = torch.tensor([3, 8, 5]), 40
    wild = PerLane(SGD(0.1), {"log_rate": torch.tensor([0.1, 1e20, 0.2], dtype=torch.float64).log()})
    tame = PerLane(SGD(0.1), {"log_rate": torch.tensor([0.1, 0.1, 0.2], dtype=torch.float64).log()})
    with torch.no_grad():
        broken, whole = (advance(task, rule, start(task, rule, seeds, 100), steps) for rule in (wild, tame))
    assert broken.diverged[:, 1].sum() > 1
    assert torch.equal(broken.diverged, broken.ended)
    assert not broken.diverged[:, ::2].any()
    assert broken.losses.isfinite().all()
    assert (broken.losses <= task.ceiling).all()
    assert (broken.losses[:, 1] == task.ceiling).any()
    assert torch.equal(broken.losses[:, ::2], whole.losses[:, ::2])
    assert torch.equal(broken.lanes.params["weight"][::2], whole.lanes.params["weight"][::2])


@pytest.mark.parametrize("part", ["loss", "gradient"])
def test_meta_gradients_survive_a_lane_that_is_not_finite(task, part):
    class Breaks(Quadratics):
        def values(self, params, batch):
            weight = params["weight"][1:2, 0, 0] * 0
            broken = weight / weight if part == "loss" else weight.sqrt()
            return super().values(params, batch) + torch.cat([broken, torch.zeros(2)])[[1, 0, 2]]

    rule = SGD(0.1)
    seeds = torch.tensor([3, 8, 5])
    breaks = Breaks(5, noise=0.1).to(dtype=torch.float64)
    done = advance(breaks, rule, start(breaks, rule, seeds, 100), 3)
    assert done.diverged[:, 1].all()
    assert not done.diverged[:, ::2].any()
    (found,) = torch.autograd.grad(done.losses.sum(), [rule.log_rate])
    others = advance(task, rule, start(task, rule, seeds[::2], 100), 3)
    (expected,) = torch.autograd.grad(others.losses.sum(), [rule.log_rate])
    torch.testing.assert_close(found, expected)
    assert expected != 0


def test_the_gradient_of_the_unrolled_loop_is_autograds(task):
    """Finite differences of the loss after some steps, by the logarithm of the rate."""
    rule, seeds = Adam(0.05), torch.tensor([3, 8])
    loss = advance(task, rule, start(task, rule, seeds, 100), 6).losses[-1].sum()
    (found,) = torch.autograd.grad(loss, [rule.log_rate])

    def moved(by):
        other = Adam(0.05)
        with torch.no_grad():
            other.log_rate += by
            return advance(task, other, start(task, other, seeds, 100), 6).losses[-1].sum()

    expected = (moved(1e-5) - moved(-1e-5)) / 2e-5
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=0)


def test_no_gradient_passes_detached_lanes_or_a_beginning(task):
    rule = SGD(0.1, momentum=0.9)
    lanes = advance(task, rule, start(task, rule, torch.tensor([3, 8]), 100), 2).lanes
    assert lanes.params["weight"].requires_grad
    detached = lanes.detach()
    assert not detached.params["weight"].requires_grad
    assert not detached.state["momentum"].requires_grad
    anew = restart(task, rule, lanes, torch.tensor([True, False]), torch.tensor([7, 9]), lanes.horizon)
    assert anew.seeds.tolist() == [7, 8]
    assert torch.equal(anew.params["weight"][1], lanes.params["weight"][1])
    (grad,) = torch.autograd.grad(anew.params["weight"][0].sum(), [rule.log_rate])
    assert grad == 0


def test_one_step_leaves_losses_as_they_are(task):
    lanes = start(task, SGD(), torch.tensor([3]), 1)
    lanes.params["weight"][:] = float("inf")
    stepped = step_lanes(task, SGD(), lanes)
    assert stepped.losses.isnan().all()
    assert stepped.finite.tolist() == [False]
    assert stepped.lanes.step.tolist() == [1]
