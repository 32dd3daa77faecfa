"""Axis variables: canonical forms, unification, cuts and regrouping, against index arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wsl.trace._axes import (
    AxisVariable,
    Concatenation,
    Dim,
    Reason,
    fix,
    is_fixed,
    leaves,
    resolve,
    significant,
    size_of,
)
from wsl.trace._solve import solutions
from wsl.trace._unify import cut, regroup, unify

REASON = Reason("operator", "test")


def _why() -> Reason:
    return REASON


def _variables(*sizes: int) -> tuple[AxisVariable, ...]:
    return tuple(map(AxisVariable, sizes))


def _layout(dim: Dim) -> list[tuple]:
    """What stands at each index of ``dim``: for every leaf its identity and position."""
    resolved = resolve(dim)
    if not resolved:
        return [()]
    head, rest = resolved[0], resolved[1:]
    tail = _layout(rest)
    if isinstance(head, AxisVariable):
        return [((id(head), i), *entry) for i in range(head.size) for entry in tail]
    return [(*entry, *after) for term in head.terms for entry in _layout(term) for after in tail]


def test_a_leading_concatenation_is_multiplied_out():
    a, b, h = _variables(2, 3, 4)
    (total,) = resolve((Concatenation([(a,), (b,)]), h))
    assert isinstance(total, Concatenation)
    assert total.terms == ((a, h), (b, h))
    (nested,) = resolve((Concatenation([(a,), (Concatenation([(b,), (h,)]),)]),))
    assert nested == Concatenation([(a,), (b,), (h,)])


def test_axes_of_size_one_stay_but_do_not_matter():
    one, h = _variables(1, 4)
    other = AxisVariable(4)
    unify((one, h), (other,), _why)
    assert resolve((other,)) == (one, h) or resolve((h,)) == (other,)
    assert significant((one, h)) == significant((other,))
    assert not is_fixed((h,))


def test_equal_products_are_refined_to_a_common_form():
    a, b = _variables(6, 4)
    c, d = _variables(4, 6)
    unify((a, b), (c, d), _why)
    assert [leaf.size for leaf in leaves((a, b))] == [2, 3, 4]
    assert [bool(leaf.reasons) for leaf in leaves((a, b))] == [False, True, True]
    assert _free((a, b)) == _free((c, d))
    e, f = _variables(12, 2)
    unify((e, f), (AxisVariable(4), AxisVariable(6)), _why)
    assert [leaf.size for leaf in leaves((e, f))] == [4, 3, 2]
    assert not any(leaf.reasons for leaf in leaves((e, f)))


def test_sizes_without_a_common_factor_are_fixed():
    a, b = _variables(2, 3)
    c, d = _variables(3, 2)
    unify((a, b), (c, d), _why)
    assert is_fixed((a, b, c, d))


def test_an_axis_cannot_be_a_part_of_itself():
    a, b = _variables(3, 3)
    unify((Concatenation([(a,), (a,)]),), (Concatenation([(a,), (b,)]),), _why)
    assert resolve((a,)) == resolve((b,))
    c = AxisVariable(4)
    d = AxisVariable(2)
    unify((c,), (d, d), _why)
    unify((d, d), (c,), _why)
    assert resolve((c,)) == (d, d)
    assert not is_fixed((c,))


def test_reasons_follow_merges_and_refinements():
    a, b, whole = _variables(3, 3, 6)
    fix((a,), REASON)
    unify((a,), (b,), _why)
    assert is_fixed((b,))
    parts = cut((whole,), [2, 4])
    assert parts is not None
    assert not is_fixed(parts[0])
    fix(parts[0], Reason("constant", "mask"))
    assert [bool(leaf.reasons) for leaf in leaves((whole,))] == [True, False]


def test_cutting_within_a_product_is_refused():
    a, b = _variables(2, 3)
    assert cut((a, b), [4, 2]) is None
    assert [size_of(piece) for piece in cut((a, b), [3, 3]) or []] == [3, 3]


def test_equal_blocks_are_read_as_a_product():
    h = AxisVariable(3)
    packed = (Concatenation([(h,), (h,), (h,)]),)
    index, inner = regroup([packed], [3, 3], _why)
    assert is_fixed(index)
    assert resolve(inner) == (h,)
    assert not is_fixed(inner)


@given(st.data())
def test_any_sequence_of_steps_keeps_equal_dims_equal(data):
    """Cuts, unions and regroupings of dims of size 12 or 24; expressions that were made equal stay equal."""
    dims: list[Dim] = [(AxisVariable(12),) for _ in range(3)]
    equal: list[tuple[Dim, Dim]] = []
    for _ in range(data.draw(st.integers(1, 8))):
        dim = data.draw(st.sampled_from(dims))
        step = data.draw(st.sampled_from(("unify", "cut", "split", "join")))
        if step == "unify":
            other = data.draw(st.sampled_from([d for d in dims if size_of(d) == size_of(dim)]))
            unify(dim, other, _why)
            equal.append((dim, other))
        elif step == "cut":
            at = data.draw(st.sampled_from([n for n in (2, 3, 4, 6, 8) if n < size_of(dim)]))
            pieces = cut(dim, [at, size_of(dim) - at])
            if pieces is not None:
                equal.append((dim, (Concatenation(pieces),)))
                dims.append((Concatenation(reversed(pieces)),))
        elif step == "split":
            outer = data.draw(st.sampled_from([n for n in (2, 3, 4, 6) if size_of(dim) % n == 0]))
            parts = regroup([dim], [outer, size_of(dim) // outer], _why)
            equal.append((dim, parts[0] + parts[1]))
            dims.append(parts[1] + parts[0])
        elif size_of(dim) == 12:
            dims.append((Concatenation([dim, data.draw(st.sampled_from(dims[:3]))]),))
    for a, b in equal:
        assert size_of(a) == size_of(b) == len(_layout(a))
        # Where a step could not be expressed, both sides are fixed, and then they may differ.
        assert _layout(a) == _layout(b) or (_free(a) == _free(b))


def _free(dim: Dim) -> list[tuple]:
    """The layout without fixed leaves."""
    names = {id(leaf): leaf for leaf in leaves(dim)}
    return [tuple(part for part in entry if not names[part[0]].reasons) for entry in _layout(dim)]


@pytest.mark.parametrize("mod2", [False, True])
@given(st.lists(st.lists(st.integers(-2, 2), min_size=6, max_size=6), max_size=6))
def test_solutions_span_the_null_space(mod2, matrix):
    """Against a brute-force rank: as many solutions as there should be, and each solves the equations."""
    rows = [dict(enumerate(row)) for row in matrix]
    wanted = [0, 1, 2, 3, 4, 5]
    found = solutions([{k: c for k, c in row.items() if c} for row in rows], wanted, mod2=mod2)
    vectors = np.array([[vector.get(k, 0) for k in wanted] for vector in found]).reshape(-1, 6)
    product = np.array(matrix, dtype=int).reshape(-1, 6) @ vectors.T
    assert not (product % 2 if mod2 else product).any()
    assert _rank(vectors, mod2) == len(found) == 6 - _rank(np.array(matrix, dtype=int).reshape(-1, 6), mod2)


def test_solutions_leave_out_unwanted_unknowns():
    rows = [{"a": 1, "t": -1}, {"t": 1, "b": 1}, {"c": 2, "b": -1}]
    assert solutions(rows, ["a", "b", "c"]) == [{"a": 2, "b": -2, "c": -1}]
    assert solutions(rows, ["a", "b", "c"], mod2=True) == [{"c": 1}]


def _rank(matrix: np.ndarray, mod2: bool) -> int:
    if not mod2:
        return int(np.linalg.matrix_rank(matrix)) if matrix.size else 0
    rows, rank = [list(row % 2) for row in matrix], 0
    for column in range(6):
        pivot = next((row for row in rows[rank:] if row[column]), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        rows = [
            [(x + y) % 2 for x, y in zip(row, pivot, strict=True)] if row[column] else row for row in rows
        ]
        rows.insert(rank, pivot)
        rank += 1
    return rank
