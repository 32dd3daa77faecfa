"""Splits: index arrays with the recipe and seed that made them, by model and never by checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wsl.zoo._columns import as_column, check_name
from wsl.zoo._errors import ZooError
from wsl.zoo._json import dump_json, load_json

_LONGEST_RECIPE = 60_000  # an attribute of HDF5 holds 64 KiB


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of one split.

    Args:
        indices: ``(n,)`` row numbers, kept sorted.
        recipe: JSON object that says how the split was made.
        seed: seed of that recipe.
    """

    indices: np.ndarray
    recipe: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        indices = np.asarray(self.indices)
        if indices.ndim != 1 or indices.size == 0 or indices.dtype.kind not in "iu":
            raise ZooError(
                f"A split's indices have shape {indices.shape} and type {indices.dtype}, "
                "expected at least one integer row number: (n,)."
            )
        object.__setattr__(self, "indices", np.sort(indices.astype(np.int64)))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer):
            raise ZooError(f"A split's seed is {self.seed!r}, expected an integer.")
        if not -(2**63) <= self.seed < 2**63:
            raise ZooError(f"A split's seed is {self.seed}, which a zoo cannot store: it has 64 bits.")
        object.__setattr__(self, "seed", int(self.seed))
        text = dump_json("recipe of a split", self.recipe)
        if len(text.encode()) > _LONGEST_RECIPE:
            raise ZooError(
                f"A split's recipe takes {len(text.encode())} bytes, and a zoo stores {_LONGEST_RECIPE}. "
                "Say how the split was made; its rows are stored beside it."
            )
        recipe = load_json("recipe of a split", text)
        object.__setattr__(self, "recipe", recipe)


def split_by_model(
    groups: Any,
    fractions: Mapping[str, float],
    seed: int,
    *,
    column: str | None = None,
    stratify: Any = None,
    stratify_column: str | None = None,
) -> dict[str, Split]:
    """Divide rows at random, keeping each group (checkpoints of a model, views of an image) together.

    Args:
        groups: ``(rows,)`` integers or text: the group of each row.
        fractions: share of the *groups* for each split; they sum to 1.
        seed: of the shuffle.
        column: the metadata column that holds ``groups``. Recorded; a build then refuses to cut a group.
        stratify: ``(rows,)`` integers or text, the same for all rows of a group: each of its values is
            divided in the same proportions, up to two groups a split.
        stratify_column: the metadata column that holds ``stratify``. Recorded.

    Returns:
        Split name -> :class:`Split`. Sizes are rounded by largest remainder; every row is in one split.

    Raises:
        ZooError: fractions that are not positive or do not sum to 1, a split that would be empty, or a group
            with several values to stratify by.
    """
    values = as_column(column or "groups", groups)
    shares = {name: float(share) for name, share in fractions.items()}
    if not shares or not all(share > 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-6:
        raise ZooError(f"Split fractions are {shares}; they must be positive and sum to 1.")
    names, group_of_row = np.unique(values, return_inverse=True)
    counts = _largest_remainder(list(shares.values()), len(names))
    if min(counts) == 0:
        sizes = dict(zip(shares, counts, strict=True))
        raise ZooError(
            f"{len(names)} groups are too few for the fractions {shares}: the splits would get {sizes}. "
            f"Use more of them ({column or 'groups'}) or larger fractions."
        )
    order = np.random.default_rng(seed).permutation(len(names))
    recipe = {"method": "split_by_model", "fractions": shares, "groups": len(names), "column": column}
    if stratify is None:
        split_of_place = np.repeat(np.arange(len(counts)), counts)
    else:
        recipe["stratify"] = stratify_column
        strata = _strata(stratify_column or "stratify", stratify, names, group_of_row)
        order = order[np.argsort(strata[order], kind="stable")]
        split_of_place = _even_sequence(counts)
    split_of_group = np.empty(len(names), dtype=np.int64)
    split_of_group[order] = split_of_place
    return {
        name: Split(np.flatnonzero(split_of_group[group_of_row] == number), dict(recipe), seed)
        for number, name in enumerate(shares)
    }


def _strata(column: str, stratify: Any, names: np.ndarray, group_of_row: np.ndarray) -> np.ndarray:
    """``(groups,)`` integers, the stratum of each group."""
    values = as_column(column, stratify)
    if values.dtype.kind == "f" or len(values) != len(group_of_row):
        raise ZooError(
            f"Cannot stratify by {column}: it holds {len(values)} {values.dtype} values for "
            f"{len(group_of_row)} rows, expected an integer or text for each. Cut floats into classes first."
        )
    distinct, stratum_of_row = np.unique(values, return_inverse=True)
    strata = np.empty(len(names), dtype=np.int64)
    strata[group_of_row] = stratum_of_row
    wrong = np.flatnonzero(strata[group_of_row] != stratum_of_row)
    if len(wrong):
        group = group_of_row[wrong[0]]
        raise ZooError(
            f"Group {names[group]} has rows of {column} {values[wrong[0]]} and {distinct[strata[group]]}, so "
            "it belongs to no one stratum. Stratify by a column that is the same for all rows of a group."
        )
    return strata


def _even_sequence(counts: list[int]) -> np.ndarray:
    """Each number ``i`` ``counts[i]`` times, spread so evenly that every stretch has about its shares."""
    total, given = sum(counts), np.zeros(len(counts))
    sequence = np.empty(total, dtype=np.int64)
    shares = np.array(counts) / total
    for place in range(total):
        sequence[place] = chosen = int(np.argmax(shares * (place + 1) - given))
        given[chosen] += 1
    return sequence


def check_splits(splits: Mapping[str, Split], columns: Mapping[str, np.ndarray], rows: int) -> None:
    """Raise ZooError for a row that does not exist, or a row or group (recorded column) in two splits."""
    owner = np.full(rows, -1)
    names = list(splits)
    for number, name in enumerate(names):
        check_name("split", name)
        indices = splits[name].indices
        if indices[0] < 0 or indices[-1] >= rows or (np.diff(indices) == 0).any():
            raise ZooError(
                f"Split {name} has rows from {indices[0]} to {indices[-1]} ({len(indices)} entries), "
                f"expected distinct rows from 0 to {rows - 1}."
            )
        taken = indices[owner[indices] >= 0]
        if len(taken):
            raise ZooError(
                f"Row {taken[0]} is in the splits {names[owner[taken[0]]]} and {name}; they must be disjoint."
            )
        owner[indices] = number
    recorded: dict[str, set[int]] = {}
    for number, name in enumerate(names):
        column = splits[name].recipe.get("column")
        if column is None:
            continue
        if not isinstance(column, str) or column not in columns:
            raise ZooError(f"Split {name} was made by the column {column!r}, which the zoo does not have.")
        recorded.setdefault(column, set()).add(number)
    for column, numbers in recorded.items():
        _check_groups(column, columns[column], owner, names, numbers)


def _check_groups(
    column: str, values: np.ndarray, owner: np.ndarray, names: list[str], numbers: set[int]
) -> None:
    """Raise ZooError when a value of a column is in one of the splits ``numbers`` and in another split."""
    rows = np.flatnonzero(owner >= 0)
    value, split = values[rows], owner[rows]
    # Rows of a group mostly follow one another: one of each run is enough.
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (value[1:] != value[:-1]) | (split[1:] != split[:-1])
    rows, value, split = rows[first], value[first], split[first]
    distinct, group = np.unique(value, return_inverse=True)
    split_of_group = np.empty(len(distinct), dtype=split.dtype)
    split_of_group[group] = split
    other = split_of_group[group]
    leaks = np.flatnonzero((other != split) & (np.isin(split, list(numbers)) | np.isin(other, list(numbers))))
    if len(leaks):
        place = leaks[0]
        raise ZooError(
            f"{column} {value[place]} has rows in the splits {names[other[place]]} and {names[split[place]]} "
            f"(row {rows[place]}). Rows of one model or image must stay together: use split_by_model."
        )


def _largest_remainder(shares: list[float], total: int) -> list[int]:
    exact = np.array(shares) / sum(shares) * total
    counts = np.floor(exact).astype(int)
    for position in np.argsort(counts - exact, kind="stable")[: total - int(counts.sum())]:
        counts[position] += 1
    return [int(count) for count in counts]
