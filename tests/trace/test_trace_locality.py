"""Families that facts allow commute with what the facts describe, index by index; "over" is an order."""

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wsl.trace._axes import AxisVariable, Concatenation, Reason, leaves
from wsl.trace._facts import Facts, Operand, Value
from wsl.trace._locality import find_families

Over = dict[AxisVariable, tuple[AxisVariable, ...]]
LABELS = "abcd"


def _families(facts: Facts, state: Sequence[Value], pool: Sequence[AxisVariable]) -> Over:
    over = find_families(facts, state, pool, pool)
    for leaf, outers in over.items():
        for outer in outers:
            assert leaf not in over.get(outer, ())
            assert set(over.get(outer, ())) <= set(outers)
    return over


def _acted(array: np.ndarray, value: Value, over: Over, tables: dict[AxisVariable, np.ndarray]) -> np.ndarray:
    """The action on the entries of a value without concatenations."""
    found = [leaf for dim in value.dims for leaf in leaves(dim)]
    shape = [leaf.size for leaf in found]
    grid = np.indices(shape)
    moved = [
        tables[leaf][(*(grid[found.index(outer)] for outer in over.get(leaf, ())), grid[i])]
        for i, leaf in enumerate(found)
    ]
    return array.reshape(shape)[tuple(moved)].reshape(array.shape)


def _tables(
    over: Over, pool: Sequence[AxisVariable], rng: np.random.Generator
) -> dict[AxisVariable, np.ndarray]:
    tables = {}
    for leaf in pool:
        table = np.empty((*(outer.size for outer in over.get(leaf, ())), leaf.size), dtype=int)
        for index in itertools.product(*map(range, table.shape[:-1])):
            table[index] = rng.permutation(leaf.size)
        tables[leaf] = table
    return tables


@st.composite
def _labelled(draw: st.DrawFn) -> tuple[list[AxisVariable], dict[str, tuple[AxisVariable, ...]]]:
    pool = [AxisVariable(size) for size in (2, 3, 2, 3)]
    dims = {label: tuple(draw(st.lists(st.sampled_from(pool), min_size=1, max_size=2))) for label in LABELS}
    return pool, dims


def _subset(draw: st.DrawFn, labels: Sequence[str]) -> tuple[str, ...]:
    return tuple(draw(st.lists(st.sampled_from(labels), unique=True, min_size=1)))


@given(st.data())
def test_families_commute_with_sums_of_products(data):
    pool, dims = data.draw(_labelled())
    labels = [_subset(data.draw, LABELS) for _ in range(data.draw(st.integers(1, 3)))]
    kept = _subset(data.draw, sorted({label for found in labels for label in found}))
    values = [Value(tuple(dims[label] for label in found)) for found in labels]
    out = Value(tuple(dims[label] for label in kept))
    facts = Facts()
    facts.multiply([Operand(v, found) for v, found in zip(values, labels, strict=True)], Operand(out, kept))
    over = _families(facts, values, pool)

    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    tables = _tables(over, pool, rng)
    text = ",".join(map("".join, labels)) + "->" + "".join(kept)
    sizes = {label: int(np.prod([leaf.size for leaf in dims[label]])) for label in LABELS}
    arrays = [rng.normal(size=[sizes[label] for label in found]) for found in labels]
    acted = [_acted(array, value, over, tables) for array, value in zip(arrays, values, strict=True)]
    expected = _acted(np.einsum(text, *arrays), out, over, tables)
    np.testing.assert_allclose(np.einsum(text, *acted), expected, atol=1e-12)


def _softmax_along(array: np.ndarray, along: Sequence[int]) -> np.ndarray:
    for i in along:
        array = np.exp(array) / np.exp(array).sum(i, keepdims=True)
    return array


@given(st.data())
def test_families_commute_with_functions_of_slices(data):
    pool, dims = data.draw(_labelled())
    labels = _subset(data.draw, LABELS)
    along = [i for i in range(len(labels)) if data.draw(st.booleans())]
    lost = [i for i in range(len(labels)) if i not in along and data.draw(st.booleans())]
    x = Value(tuple(dims[label] for label in labels))
    out = Value(tuple(dim for i, dim in enumerate(x.dims) if i not in lost))
    source = tuple(None if i in along else label for i, label in enumerate(labels))
    facts = Facts()
    facts.apply(
        Operand(x, source), Operand(out, tuple(label for i, label in enumerate(source) if i not in lost))
    )
    over = _families(facts, [x], pool)

    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    tables = _tables(over, pool, rng)
    array = rng.normal(size=[int(np.prod([leaf.size for leaf in dim])) for dim in x.dims])

    def function(array: np.ndarray) -> np.ndarray:
        softened = _softmax_along(array, along)
        for i in reversed(lost):
            softened = softened.max(i)
        return softened

    expected = _acted(function(array), out, over, tables)
    np.testing.assert_allclose(function(_acted(array, x, over, tables)), expected, atol=1e-12)


def test_what_is_mixed_is_not_outside_of_what_is_kept():
    a, r = AxisVariable(2), AxisVariable(3)
    x, out = Value(((a,), (r,))), Value(((r,),))
    facts = Facts()
    facts.multiply([Operand(x, ("a", "r"))], Operand(out, ("r",)))
    assert find_families(facts, [x], [a, r], [a, r]) == {a: (r,)}
    facts = Facts()
    facts.multiply([Operand(x, ("a", "r"))], Operand(Value(()), ()))
    assert find_families(facts, [x], [a, r], [a, r]) == {r: (a,)}
    assert find_families(facts, [x], [a, r], [r]) == {a: (r,)}
    assert find_families(facts, [x], [r], [a]) == {r: (a,)}


def test_only_sums_may_be_lost_over_several_dimensions_at_once():
    a, r = AxisVariable(2), AxisVariable(3)
    x = Value(((a,), (r,)))
    facts = Facts()
    facts.apply(Operand(x, ("a", "r")), Operand(Value(()), ()))
    assert find_families(facts, [x], [r], [a]) == {}
    facts = Facts()
    facts.multiply([Operand(x, (None, "r"))], Operand(Value(((a,),)), (None,)))
    assert find_families(facts, [x], [r], [a]) == {}
    flat = Value(((a, r),))
    facts = Facts()
    facts.apply(Operand(flat, ("n",)), Operand(Value(()), ()))
    assert find_families(facts, [flat], [r], [a]) == {r: (a,)}


def test_an_axis_that_occurs_twice_is_not_outside():
    a, r = AxisVariable(2), AxisVariable(3)
    x = Value(((a,), (a,), (r,)))
    facts = Facts()
    facts.rearrange(x, Value(((a, a), (r,))))
    assert find_families(facts, [x], [r], [a]) == {}


def test_a_concatenation_within_a_product_counts_term_by_term():
    a, b, c, r = (AxisVariable(size) for size in (2, 2, 3, 3))
    x = Value(((a,), (b, Concatenation([(c,), (r,)])), (r,)))
    facts = Facts()
    facts.same(x, Value(x.dims))
    found = find_families(facts, [x], [c, r], [a, b, c])
    assert {leaf: set(over) for leaf, over in found.items()} == {c: {a, b}, r: {a, b}}
    y = Value(((a,), (b, Concatenation([(c,), (c,)])), (r,)))
    facts.same(y, Value(y.dims))
    assert set(find_families(facts, [y], [c, r], [a, b, c])[r]) == {a, b}  # x is among the facts
    assert set(find_families(facts[1:], [y], [c, r], [a, b, c])[r]) == {a, b, c}
    z = Value(((c,), (b, Concatenation([(c,), (a,)])), (r,)))
    facts = Facts()
    facts.rearrange(z, Value(z.dims))
    assert find_families(facts, [z], [r], [c]) == {}


def test_labels_that_differ_after_a_conflict_count_twice():
    reason = Reason("operator", "test")
    a, b, r = AxisVariable(2, reason), AxisVariable(2, reason), AxisVariable(3)
    x, y = Value(((a,), (r,))), Value(((b,),))
    facts = Facts()
    facts.multiply([Operand(x, ("a", "r")), Operand(y, ("a",))], Operand(Value(x.dims), ("a", "r")))
    assert find_families(facts, [x], [r], [a, b]) == {}
