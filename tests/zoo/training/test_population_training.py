"""The step loop of networks that train together, and what is said of them."""

import numpy as np
import torch

from wsl.zoo.training import StackedOptimizer, finite_rows, train_rows
from wsl.zoo.training._progress import TrainProgress


def test_networks_are_copied_when_they_are_due_and_leave_at_their_ends():
    rows = torch.zeros(3, 2)
    optimizer = StackedOptimizer(["sgd"] * 3, [1.0] * 3, [0.0] * 3, rows)
    active = []

    def gradient(n):
        active.append(n)
        return -torch.ones(n, 2)

    copies = train_rows(rows, [(0, 2, 4), (2, 2), (0,)], optimizer, gradient)
    assert [[float(row[0]) for row in own] for own in copies] == [[0, 2, 4], [2, 2], [0]]
    assert active == [2, 2, 1, 1]
    assert rows[:, 0].tolist() == [4, 2, 0]


def test_rows_are_finite_in_the_type_that_stores_them():
    rows = torch.tensor([[1.0, 2.0], [1e30, 0.0], [float("nan"), 0.0]])
    assert finite_rows(rows, "float32").tolist() == [True, True, False]
    assert finite_rows(rows, "float16").tolist() == [True, False, False]


def test_the_mean_quality_leaves_out_networks_without_one(capsys):
    with TrainProgress(10, 0, 4, 1, unit="lines", quality=lambda mean: f"{mean:.1f} nats", shown=True) as bar:
        bar.advance(10)
        bar.advance(0, np.array([1.0, np.nan, 3.0]))
    said = capsys.readouterr().err
    assert "4/4 networks" in said and "2.0 nats" in said and "lines/s" in said
