"""Problems as data: what identifies them, and how their batches come."""

import pytest
import torch

from wsl.data import DataError, MetaSteps, ProblemDataModule
from wsl.learnopt import Quadratics, TaskFamily


def test_an_epoch_goes_on_behind_what_it_gave():
    loader = MetaSteps(5)
    numbers = iter(loader)
    assert [next(numbers) for _ in range(3)] == [0, 1, 2]
    resumed = MetaSteps(5)
    resumed.load_state_dict(loader.state_dict())
    assert list(resumed) == [3, 4] and list(resumed) == [0, 1, 2, 3, 4]
    whole = MetaSteps(5)
    whole.load_state_dict({"steps": 5})
    assert list(whole) == [0, 1, 2, 3, 4] and len(whole) == 5


def test_held_out_problems_are_of_each_task_and_always_the_same():
    family = TaskFamily([Quadratics(2), Quadratics(3)])
    data = ProblemDataModule(family, held_out=4)
    batches = [list(loader()) for loader in (data.val_dataloader, data.test_dataloader) for _ in range(2)]
    assert [batch.task for batch in batches[0]] == [0, 1]
    for first, again in (batches[:2], batches[2:]):
        assert all(torch.equal(a.seeds, b.seeds) for a, b in zip(first, again, strict=True))
    assert not set(batches[0][0].seeds.tolist()) & set(batches[2][0].seeds.tolist())
    assert data.spec == family[0].spec and data.tasks == list(family)


def test_the_fingerprint_is_of_what_the_problems_are():
    known = ProblemDataModule(Quadratics(3)).fingerprint
    assert ProblemDataModule(Quadratics(3)).fingerprint == known
    others = (Quadratics(4), Quadratics(3, condition=2.0), Quadratics(3, noise=0.1))
    families = (TaskFamily([Quadratics(3), Quadratics(3)]),)
    assert len({known, *(ProblemDataModule(other).fingerprint for other in (*others, *families))}) == 5


def test_they_are_no_networks_with_labels():
    data = ProblemDataModule(Quadratics(3))
    data.check("fit")
    for name in ("classes", "targets", "statistics", "forward_definitions"):
        with pytest.raises(DataError, match=r"not trained networks with labels.\n.*LearnedOptimization"):
            getattr(data, name)
    for name in ("steps", "held_out", "horizon"):
        with pytest.raises(DataError, match=f"{name} is 0; expected at least 1"):
            ProblemDataModule(Quadratics(3), **{name: 0})
