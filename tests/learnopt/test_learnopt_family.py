"""Families draw tasks by their weights."""

import pytest
import torch

from wsl.learnopt.tasks import Quadratics, TaskFamily


def test_lanes_draw_tasks_by_weight():
    tasks = [Quadratics(2), Quadratics(3), Quadratics(4)]
    family = TaskFamily(tasks, [3, 0, 1])
    drawn = dict(family.sample(4000, torch.Generator().manual_seed(0)))
    assert sum(drawn.values()) == 4000
    assert set(drawn) == {0, 2}
    assert drawn[0] == pytest.approx(3000, abs=4 * 28)
    assert family.sample(9, torch.Generator().manual_seed(1)) == family.sample(
        9, torch.Generator().manual_seed(1)
    )
    assert list(family) == tasks
    assert family[1] is tasks[1]


def test_refused_families():
    with pytest.raises(ValueError, match="has 0 tasks and 0 weights"):
        TaskFamily([])
    with pytest.raises(ValueError, match="1 tasks and 2 weights"):
        TaskFamily([Quadratics(2)], [1, 1])
    with pytest.raises(ValueError, match="no proportions"):
        TaskFamily([Quadratics(2)], [0])
