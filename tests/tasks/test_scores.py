"""Scores of predicted numbers: against their definitions, and over batches and processes."""

import itertools
import math

import numpy as np
import pytest
import torch

from wsl._scores import SCORES, scores
from wsl.tasks.scores import PredictionScores


def tau_b(x, y):
    """Kendall's tau-b by counting every pair."""
    agree = ties_x = ties_y = pairs = 0
    for i, j in itertools.combinations(range(len(x)), 2):
        a, b = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
        agree += a * b
        ties_x += a == 0
        ties_y += b == 0
        pairs += 1
    return agree / math.sqrt((pairs - ties_x) * (pairs - ties_y))


def drawn(count=60, seed=0):
    generator = np.random.default_rng(seed)
    targets = generator.integers(0, 20, count) / 20  # with ties
    return targets + 0.3 * generator.normal(size=count).round(1), targets


def test_tau_counts_pairs_and_ties():
    predicted, targets = drawn()
    assert scores(predicted, targets)["tau"] == pytest.approx(tau_b(predicted, targets), abs=1e-12)


def test_the_others_are_what_their_names_say():
    predicted, targets = drawn(seed=1)
    found = scores(predicted, targets)
    residual = ((predicted - targets) ** 2).sum() / ((targets - targets.mean()) ** 2).sum()
    assert found["r2"] == pytest.approx(1 - residual)
    assert found["mae"] == pytest.approx(np.abs(predicted - targets).mean())
    ranks = [np.array([(x < v).sum() + ((x == v).sum() - 1) / 2 for v in x]) for x in (predicted, targets)]
    assert found["spearman"] == pytest.approx(np.corrcoef(*ranks)[0, 1])


def test_batches_make_no_difference():
    predicted, targets = map(torch.tensor, drawn())
    metric = PredictionScores()
    for part in torch.arange(60).split(7):
        metric.update(predicted[part], targets[part])
    assert {name: float(value) for name, value in metric.compute().items()} == scores(*drawn())
    metric.reset()
    metric.update(targets, targets)
    assert float(metric.compute()["tau"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("predicted", "targets"), [([0.5, 0.5, 0.5], [0.1, 0.2, 0.3]), ([0.1, 0.2], [0.4, 0.4]), ([0.1], [0.1])]
)
def test_without_an_order_there_is_no_correlation(predicted, targets):
    found = scores(np.array(predicted), np.array(targets))
    assert found["tau"] == found["spearman"] == 0 and set(found) == set(SCORES)
    assert all(map(math.isfinite, found.values()))


def test_predictions_that_are_not_finite_have_no_scores():
    assert math.isnan(scores(np.array([0.1, np.nan, 0.3]), np.array([1.0, 2.0, 3.0]))["tau"])
