"""Held-out trainings: losses of a plain loop, and lanes that diverge count to the end."""

import math

import pytest
import torch
from known_quadratic import CURVATURES, NoisyQuadratic

from wsl.learnopt import SGD, evaluate

SEEDS = torch.arange(5)


def test_losses_are_those_of_a_plain_loop():
    task = NoisyQuadratic()
    found = evaluate(task, SGD(0.2), SEEDS, 4)
    weight, rows = task.init(SEEDS)["weight"], []
    for step in range(14):
        noise = task.batch(SEEDS, torch.full_like(SEEDS, step))[:, None]
        rows.append((0.5 * CURVATURES * weight**2 + noise * weight).sum((1, 2)))
        if step < 4:
            weight = weight - 0.2 * (CURVATURES * weight + noise)
    assert torch.allclose(found.losses, torch.stack(rows[:4]))
    assert torch.allclose(found.final, torch.stack(rows[4:]).mean(0))
    assert not found.diverged.any() and not found.losses.requires_grad


def test_a_training_depends_on_its_seed_alone():
    task, optimizer = NoisyQuadratic(), SGD(0.2, momentum=0.9)
    whole, some = evaluate(task, optimizer, SEEDS, 6), evaluate(task, optimizer, SEEDS[3:], 6)
    assert torch.equal(whole.losses[:, 3:], some.losses) and torch.equal(whole.final[3:], some.final)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_lane_that_diverges_counts_as_the_bound_to_the_end(broken):
    class Breaks(NoisyQuadratic):
        def loss(self, params, batch):
            loss = super().loss(params, batch)
            return torch.where(params["weight"][0, 2] < 0.1, broken * loss, loss)

    found, whole = (evaluate(kind(), SGD(0.2), SEEDS, 6, bound=3.0) for kind in (Breaks, NoisyQuadratic))
    assert found.diverged.any() and not whole.diverged.any()
    for lane in range(5):
        limit = 3 * whole.losses[0, lane].abs()
        lost = found.losses[:, lane] == limit
        kept = int((~lost).sum())
        assert lost[kept:].all() and bool(lost.any() | (found.final[lane] == limit)) == bool(
            found.diverged[lane]
        )
        assert torch.equal(found.losses[:kept, lane], whole.losses[:kept, lane])
        assert (found.final[lane] == limit) == found.diverged[lane]
