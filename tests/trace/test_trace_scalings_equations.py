"""Equations between exponents: places, products of matrices, null spaces; and wrong equations are noticed."""

import itertools
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scaled_modules import SCALED
from scaling_oracle import Measured, holds

from wsl import trace
from wsl.trace import _scaling
from wsl.trace._axes import AxisVariable, Concatenation
from wsl.trace._facts import Facts, Operand, Value
from wsl.trace._linear import LinearPattern
from wsl.trace._places import Occurrence, Places
from wsl.trace._scaling import Equations, collect_equations
from wsl.trace._solve import independent, solutions


def place(value: Value, position: int, *key: int) -> Occurrence:
    return (id(value), key), position


def powers(equations: Equations, *wanted: Occurrence) -> list[list[int]]:
    """The positive solutions, at the wanted occurrences."""
    return [[found.get(o, 0) for o in wanted] for found in solutions(equations.positive, wanted)]


def test_places_of_a_repeated_axis_have_exponents_of_their_own():
    h, n = AxisVariable(4), AxisVariable(3)
    x, weight, out = Value(((n,), (h,))), Value(((h,), (h,))), Value(((n,), (h,)))
    facts = Facts()
    facts.multiply([Operand(x, ("n", "i")), Operand(weight, ("o", "i"))], Operand(out, ("n", "o")))
    equations = collect_equations(facts, Places([h]))[h]
    wanted = [place(x, 1, 0, 0), place(weight, 0, 0, 0), place(weight, 1, 0, 0), place(out, 1, 0, 0)]
    assert powers(equations, *wanted) == [[1, 0, -1, 0], [0, 1, 0, 1]]
    assert equations.linear.powers(wanted) is None  # the two sides are not tied yet
    facts.same(out, x)
    equations = collect_equations(facts, Places([h]))[h]
    assert powers(equations, *wanted) == [[1, 1, -1, 1]]
    assert equations.linear.powers(wanted) == dict(zip(wanted, (1, 1, -1, 1), strict=True))


def test_one_label_at_two_dims_is_a_diagonal_whose_exponents_add_up():
    h = AxisVariable(4)
    matrix, diagonal = Value(((h,), (h,))), Value(((h,),))
    facts = Facts()
    facts.multiply([Operand(matrix, ("i", "i"))], Operand(diagonal, ("i",)))
    equations = collect_equations(facts, Places([h]))[h]
    wanted = [place(matrix, 0, 0, 0), place(matrix, 1, 0, 0), place(diagonal, 0, 0)]
    assert powers(equations, *wanted) == [[1, 0, 1], [0, 1, 1]]
    assert equations.linear.broken


def test_products_within_one_dim_are_matched_place_by_place():
    a, h = AxisVariable(2), AxisVariable(4)
    square, flat = Value(((h,), (a,), (h,))), Value(((h, a, h),))
    facts = Facts()
    facts.rearrange(square, flat)
    equations = collect_equations(facts, Places([h]))[h]
    wanted = [place(square, 0, 0, 0, 0), place(square, 2, 0, 0, 0), place(flat, 0, 0), place(flat, 2, 0)]
    assert powers(equations, *wanted) == [[1, 0, 1, 0], [0, 1, 0, 1]]


def test_terms_of_concatenations_within_products_are_matched_one_by_one():
    """Tokens are concatenated, and merged with the batch: the parts of tokens and of channels stay apart."""
    n, class_token, tokens, h = map(AxisVariable, (2, 1, 4, 3))
    all_tokens = (Concatenation([(class_token,), (tokens,)]),)
    channels = (Concatenation([(h,), (h,)]),)
    apart, merged = Value(((n,), all_tokens, channels)), Value(((n, *all_tokens), channels))
    facts = Facts()
    facts.rearrange(apart, merged)
    equations = collect_equations(facts, Places([h]))[h]
    cells = list(itertools.product(range(2), range(2)))
    before = [place(apart, 2, 0, tokens, part) for tokens, part in cells]
    after = [place(merged, 2, tokens, part) for tokens, part in cells]
    assert powers(equations, *before, *after) == [[i == j for j in range(4)] * 2 for i in range(4)]
    facts = Facts()
    facts.rearrange(merged, Value((channels, (n, *all_tokens))))  # in another order: tied all the same
    assert powers(collect_equations(facts, Places([h]))[h], *after) == [[1, 1, 1, 1]]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from((1, -1))), max_size=8))
def test_patterns_are_what_trying_all_powers_finds(ties):
    """Against all assignments of 1 and -1: one pattern, up to its sign, or none."""
    pattern: LinearPattern[int] = LinearPattern()
    for a, b, sign in ties:
        pattern.tie(a, b, sign)
    fitting = [
        signs
        for signs in itertools.product((1, -1), repeat=5)
        if signs[0] == 1 and all(signs[a] == sign * signs[b] for a, b, sign in ties)
    ]
    assert pattern.broken == (not fitting)
    found = pattern.powers(range(5))
    assert found == (dict(enumerate(fitting[0])) if len(fitting) == 1 else None)


def test_equal_unknowns_are_merged_before_others_are_eliminated():
    rows = [{"a": 1, "t": -1}, {"t": 2, "u": -2}, {"u": Fraction(1, 2), "b": 1}, {"c": 1, "a": -1}]
    assert solutions(rows, ["a", "b", "c"]) == [{"a": 2, "b": -1, "c": 2}]
    assert solutions([*rows, {"t": 1}], ["a", "b", "c"]) == []


def test_vectors_are_independent_over_the_rationals_or_modulo_two():
    known = [{"a": 1, "b": 1}, {"b": 1, "c": 1}]
    assert independent(known, {"a": 1, "c": 1})
    assert not independent(known, {"a": 1, "c": 1}, mod2=True)
    assert not independent(known, {"a": 1, "c": -1})
    assert not independent([], {})


def _blind_to_missing_operands(equations: Equations, fact: object, carried: _scaling.Carried) -> None:
    *inputs, out = carried
    for found in inputs:
        if found and out:
            equations.same(found[0], out[0])


def _every_function_is_homogeneous(equations: Equations, fact: object, carried: _scaling.Carried) -> None:
    x, out = carried
    if x and out:
        equations.require({x[0]: 1, out[0]: -1}, sign=False)
        equations.zero([])


def _every_function_is_odd(equations: Equations, fact: object, carried: _scaling.Carried) -> None:
    x, out = carried
    equations.linear.broken = True
    for occurrence in (*x, *out):
        equations.require({occurrence: 1}, sign=False)
    if x and out:
        equations.require({x[0]: 1, out[0]: -1}, positive=False)


def _gains_are_linear(equations: Equations, fact: object, carried: _scaling.Carried) -> None:
    *inputs, out = carried
    for found in filter(None, inputs):
        if out:
            equations.linear.tie(found[0], out[0])
        else:
            equations.linear.tie(found[0], next(f[0] for f in reversed(inputs) if f), -1)


def _contractions_are_free(equations: Equations, fact: object, carried: _scaling.Carried) -> None:
    *inputs, out = carried
    equations.linear.broken = True
    if out:
        for found in filter(None, inputs):
            equations.require({found[0]: 1, out[0]: -1})


MUTANTS: dict[str, tuple[type, Callable[..., None], str]] = {
    "sums": (_scaling.Add, _blind_to_missing_operands, "shifted"),
    "homogeneous": (_scaling.Apply, _every_function_is_homogeneous, "loop_silu"),
    "odd": (_scaling.Apply, _every_function_is_odd, "pooled"),
    "gain": (_scaling.Multiply, _gains_are_linear, "gain"),
    "contraction": (_scaling.Multiply, _contractions_are_free, "gain"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_wrong_equations_are_noticed(mutant, monkeypatch):
    kind, relation, name = MUTANTS[mutant]
    monkeypatch.setitem(_scaling._RELATIONS, kind, relation)
    torch.manual_seed(0)
    row = SCALED[name]
    module, inputs = row.build(), row.inputs()
    subject = Measured(module, trace(module, inputs), inputs)
    assert not all(holds(subject, scaling) for scaling in subject.spec.scalings)
