"""Samplers of several architectures; those of one are tested with the data module."""

import numpy as np
import pytest

from wsl.data import ArchitectureSampler

ROWS = np.arange(1000, 1101)
KINDS = np.repeat([0, 1, 2, 3, 4], [47, 30, 19, 4, 1])
KIND_OF = dict(zip(ROWS.tolist(), KINDS.tolist(), strict=True))


def sampler(batch_size=8, *, shuffle=True, seed=0, **options):
    return ArchitectureSampler(ROWS, KINDS, batch_size, shuffle=shuffle, seed=seed, **options)


def epoch(own, number=0):
    own.set_epoch(number)
    return [request.rows for request in own]


@pytest.mark.parametrize("size", [1, 3, 8, 101, 200])
def test_each_row_once_an_epoch_in_full_batches(size):
    for number in range(3):
        batches = epoch(sampler(size), number)
        assert sorted(row for batch in batches for row in batch) == ROWS.tolist()
        assert len(batches) == len(sampler(size)) == -(-len(ROWS) // size)
        assert {len(batch) for batch in batches[:-1]} <= {size}


def test_batches_are_of_one_architecture_as_far_as_rows_allow():
    for number in range(5):
        batches = [[KIND_OF[row] for row in batch] for batch in epoch(sampler(), number)]
        alike = [batch[0] for batch in batches[:-1] if len(set(batch)) == 1]
        left = [batch for batch in batches[:-1] if len(set(batch)) > 1]
        for kind in range(5):
            # some rows of the architecture may be in the last, smaller batch
            rest = sum(KIND_OF[row] == kind for row in ROWS) - batches[-1].count(kind)
            assert alike.count(kind) >= rest // 8
            assert sum(batch.count(kind) for batch in left) <= rest % 8
        assert 0 < len(left) <= 4


def test_the_order_of_architectures_is_random():
    found = set()
    for number in range(20):
        first = epoch(sampler(), number)[0]
        found.add(KIND_OF[first[0]] if len({KIND_OF[row] for row in first}) == 1 else "mixed")
    assert found >= {0, 1, "mixed"}


def test_no_rows_weigh_more_in_expectation():
    """A row in a batch of ``n`` has ``1 / n`` of the mean gradient: on average the same for all rows."""
    epochs = 3000
    weight = dict.fromkeys(ROWS.tolist(), 0.0)
    own = sampler()
    for number in range(epochs):
        for batch in epoch(own, number):
            for row in batch:
                weight[row] += 1 / len(batch) / epochs
    by_kind = [np.mean([weight[row] for row in ROWS if KIND_OF[row] == kind]) for kind in range(5)]
    assert by_kind == pytest.approx([13 / 101] * 5, rel=0.015)
    assert list(weight.values()) == pytest.approx([13 / 101] * 101, rel=0.03)


def test_where_batches_fill_up_all_rows_weigh_exactly_the_same():
    own = ArchitectureSampler(ROWS[:96], KINDS[:96], 8, shuffle=True, seed=0)
    assert {len(batch) for number in range(20) for batch in epoch(own, number)} == {8}


def test_seed_and_epoch_alone_decide():
    runs = [epoch(sampler(seed=seed), number) for seed, number in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert runs[0] == runs[1] and runs[0] != runs[2] and runs[0] != runs[3]


@pytest.mark.parametrize("start", [0, 1, 7, 12])
def test_continues_in_the_middle_of_an_epoch(start):
    own = sampler()
    own.set_epoch(2)
    whole = list(own)
    own.start = start
    assert list(own) == whole[start:], "rows and seeds"
    assert list(own) == whole, "once only"


@pytest.mark.parametrize("replicas", [2, 3])
def test_processes_share_the_rows(replicas):
    parts = [sampler(replicas=replicas, rank=rank) for rank in range(replicas)]
    drawn = [epoch(part, 4) for part in parts]
    assert len({len(part) for part in drawn}) == 1, "all processes take equally many steps"
    assert all(len(part) == len(own) for part, own in zip(drawn, parts, strict=True))
    for step in zip(*drawn, strict=True):
        assert len({len(batch) for batch in step}) == 1, "and all batches of a step have one size"
    counted = [row for part in drawn for batch in part for row in batch]
    assert set(counted) == set(ROWS.tolist())
    assert len(counted) - len(ROWS) == -len(ROWS) % replicas, "rows that wrap around"
    grouped = [len({KIND_OF[row] for row in batch}) == 1 for part in drawn for batch in part[:-1]]
    assert np.mean(grouped) > 0.5


@pytest.mark.parametrize("replicas", [1, 3])
def test_evaluation_counts_each_row_once_architecture_by_architecture(replicas):
    rng = np.random.default_rng(0)
    mixed = rng.permutation(len(ROWS))
    parts = [
        ArchitectureSampler(ROWS[mixed], KINDS[mixed], 8, shuffle=False, seed=0, replicas=replicas, rank=rank)
        for rank in range(replicas)
    ]
    drawn = [[row for request in part for row in request.rows] for part in parts]
    assert sorted(row for part in drawn for row in part) == ROWS.tolist()
    for part in drawn:
        kinds = [KIND_OF[row] for row in part]
        assert kinds == sorted(kinds)


def test_a_number_for_each_row():
    with pytest.raises(ValueError, match=r"architectures has shape \(3,\) and rows \(2,\)"):
        ArchitectureSampler([1, 2], [0, 0, 1], 2, shuffle=True, seed=0)
