"""Splits go by model: no group is ever on two sides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wsl.zoo import Split, ZooError, split_by_model
from wsl.zoo._splits import check_splits

groups_of_rows = st.integers(4, 30).flatmap(
    lambda groups: st.lists(st.integers(0, groups - 1), min_size=groups, max_size=90).map(
        lambda drawn: [*range(groups), *drawn]  # every group has a row
    )
)


@given(groups=groups_of_rows, seed=st.integers(0, 2**32 - 1), text=st.booleans())
def test_no_group_is_in_two_splits(groups: list[int], seed: int, text: bool) -> None:
    names = np.array([f"model {group}" for group in groups]) if text else np.array(groups)
    splits = split_by_model(names, {"train": 0.5, "val": 0.25, "test": 0.25}, seed)
    owners: dict[object, str] = {}
    for name, split in splits.items():
        for group in names[split.indices]:
            assert owners.setdefault(group, name) == name
    everything = np.concatenate([split.indices for split in splits.values()])
    assert sorted(everything) == list(range(len(groups))), "every row once"
    total = len(set(groups))
    for name, share in (("train", 0.5), ("val", 0.25), ("test", 0.25)):
        assert abs(list(owners.values()).count(name) - share * total) < 1


def test_splits_follow_the_seed_and_only_the_seed() -> None:
    groups = np.arange(100)
    first, again, other = (split_by_model(groups, {"a": 0.5, "b": 0.5}, seed) for seed in (4, 4, 5))
    assert np.array_equal(first["a"].indices, again["a"].indices)
    assert not np.array_equal(first["a"].indices, other["a"].indices)
    assert first["a"].seed == 4
    assert first["a"].recipe["groups"] == 100


@given(groups=groups_of_rows, seed=st.integers(0, 2**32 - 1), strata=st.integers(1, 4))
def test_strata_are_divided_alike(groups: list[int], seed: int, strata: int) -> None:
    fractions = {"train": 0.5, "val": 0.25, "test": 0.25}
    models, label = np.array(groups), np.array(groups) % strata
    splits = split_by_model(models, fractions, seed, column="m", stratify=label, stratify_column="label")
    plain = split_by_model(models, fractions, seed)
    sizes = {name: len(np.unique(models[split.indices])) for name, split in splits.items()}
    assert sizes == {name: len(np.unique(models[split.indices])) for name, split in plain.items()}
    assert sorted(np.concatenate([split.indices for split in splits.values()])) == list(range(len(groups)))
    check_splits(splits, {"m": models}, len(groups))
    for stratum in range(strata):
        total = len(np.unique(models[label == stratum]))
        for name, share in fractions.items():
            rows = splits[name].indices
            found = len(np.unique(models[rows][label[rows] == stratum]))
            assert abs(found - share * total) < 2
    assert splits["train"].recipe["stratify"] == "label"


def test_large_strata_keep_their_proportions_and_stay_random() -> None:
    models = np.arange(3000)
    label = (models >= 2700).astype(int)  # a rare class
    fractions = {"train": 0.7, "val": 0.1, "test": 0.2}
    first, other = (split_by_model(models, fractions, seed, stratify=label) for seed in (0, 1))
    for name, share in fractions.items():
        assert abs((label[first[name].indices] == 1).sum() - 300 * share) <= 1
    common = np.intersect1d(first["test"].indices, other["test"].indices)
    assert 80 < len(common) < 160, "two seeds share a fifth of a fifth"


@pytest.mark.parametrize(
    ("stratify", "message"),
    [
        ([0, 1, 1, 1], "Group 0 has rows of label 0 and 1"),
        ([0.5] * 4, "Cannot stratify by label: .* float64"),
        ([0, 0, 1], "3 int64 values for 4 rows"),
    ],
)
def test_what_cannot_be_stratified(stratify: list[float], message: str) -> None:
    halves = {"a": 0.5, "b": 0.5}
    with pytest.raises(ZooError, match=message):
        split_by_model([0, 0, 1, 1], halves, 0, stratify=stratify, stratify_column="label")


@pytest.mark.parametrize(
    ("fractions", "message"),
    [
        ({}, "sum to 1"),
        ({"train": 0.5, "test": 0.4}, "sum to 1"),
        ({"train": 1.5, "test": -0.5}, "positive"),
        ({"train": float("nan"), "test": 0.5}, "positive"),
        ({"train": 0.9, "val": 0.05, "test": 0.05}, "too few"),
    ],
)
def test_fractions_that_cannot_be_met(fractions: dict[str, float], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        split_by_model(np.arange(4), fractions, 0)


def test_seeds_and_recipes_that_cannot_be_stored() -> None:
    with pytest.raises(ZooError, match="64 bits"):
        Split([0], seed=2**63)
    with pytest.raises(ZooError, match="recipe takes"):
        Split([0], {"rows": list(range(20_000))})


@pytest.mark.parametrize("indices", [[], [[1]], [0.5], [True]])
def test_indices_that_are_not_rows(indices: object) -> None:
    with pytest.raises(ZooError, match="indices"):
        Split(indices)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ([0, 1], [1, 2], "Row 1 is in the splits train and test"),
        ([0, 0], [1], "distinct rows"),
        ([-1], [1], "distinct rows from 0 to 5"),
        ([0], [6], "distinct rows from 0 to 5"),
        ([0, 1], [2, 3, 5], "image 1 has rows in the splits"),
    ],
)
def test_splits_that_leak(train: list[int], test: list[int], message: str) -> None:
    columns = {"image": np.array([0, 0, 1, 1, 2, 0])}
    if "image" in message:
        columns["image"] = np.array([0, 1, 1, 2, 2, 3])
    splits = {
        "train": Split(np.array(train), {"column": "image"}),
        "test": Split(np.array(test), {"column": "image"}),
    }
    with pytest.raises(ZooError, match=message):
        check_splits(splits, columns, 6)


def test_a_split_by_an_unknown_column() -> None:
    with pytest.raises(ZooError, match="made by the column 'model'"):
        check_splits({"train": Split(np.array([0]), {"column": "model"})}, {}, 6)
