"""Scalings are found as derived by hand; they hold, and there are as many as the function has."""

from functools import cache

import pytest
import torch
from scaled_modules import SCALED
from scaling_oracle import Measured, claimed, holds, null_space, sign_patterns, spanned

from wsl import trace
from wsl.spec import Scaling


@cache
def measured(name: str) -> Measured:
    torch.manual_seed(0)
    row = SCALED[name]
    module, inputs = row.build(), row.inputs()
    return Measured(module, trace(module, inputs), inputs)


@pytest.mark.parametrize("name", SCALED)
def test_finds_the_scalings_derived_by_hand(name):
    assert list(map(written, measured(name).spec.scalings)) == SCALED[name].scalings


@pytest.mark.parametrize("name", SCALED)
def test_each_generator_leaves_the_function_unchanged_and_needs_all_its_blocks(name):
    subject = measured(name)
    for scaling in subject.spec.scalings:
        assert holds(subject, scaling)
        for left_out in scaling.exponents if len(scaling.exponents) > 1 else ():
            rest = tuple(exponent for exponent in scaling.exponents if exponent != left_out)
            free = invisible(subject, scaling, left_out.key)
            assert free or not holds(subject, Scaling(scaling.axis, scaling.kind, rest)), left_out


@pytest.mark.parametrize("name", SCALED)
def test_there_are_as_many_as_the_null_space_has(name):
    subject = measured(name)
    for axis in subject.spec.hidden_axes:
        found = claimed(subject, axis.name, "positive")
        solutions, _ = null_space(subject, axis.name, len(found))
        assert len(found) == len(solutions) == rank(torch.cat([found, solutions]))


@pytest.mark.parametrize("name", SCALED)
def test_signs_are_those_that_trying_them_all_finds(name):
    subject = measured(name)
    for axis in subject.spec.hidden_axes:
        if len(subject.places(axis.name)) <= 8:
            found = claimed(subject, axis.name, "sign")
            assert spanned(found) == sign_patterns(subject, axis.name)


@pytest.mark.parametrize("name", SCALED)
def test_no_matrix_acts_where_only_factors_are_claimed(name):
    subject = measured(name)
    for scaling in subject.spec.scalings:
        if scaling.kind != "linear" and subject.spec.axes[scaling.axis].size > 1:
            powers = [(e.key, 1 if e.power > 0 else -1, e.dim) for e in scaling.exponents]
            assert not holds(subject, Scaling(scaling.axis, "linear", powers))


def invisible(subject: Measured, scaling: Scaling, key: str) -> bool:
    """Whether a scaling of this block alone is a symmetry too."""
    alike = [s for s in subject.spec.scalings if (s.axis, s.kind) == (scaling.axis, scaling.kind)]
    return any({exponent.key for exponent in other.exponents} == {key} for other in alike)


def rank(rows: torch.Tensor) -> int:
    return int(torch.linalg.matrix_rank(rows, atol=1e-3))


def written(scaling: Scaling) -> str:
    return f"{scaling.axis} {scaling.kind} {' '.join(map(str, scaling.exponents))}"


def test_a_scaling_of_an_axis_that_its_families_contain_is_left_out():
    spec = measured("experts").spec
    assert spec.axes["h2"].family == ("h1",)
    assert spec.axes["h1"].scaling is None
    assert spec.axes["h2"].scaling == "positive"


def test_the_strongest_scaling_is_named_at_the_axis():
    for spec in (measured(name).spec for name in SCALED):
        for axis in spec.hidden_axes:
            kinds = {scaling.kind for scaling in spec.scalings if scaling.axis == axis.name}
            assert axis.scaling == next((k for k in ("linear", "positive", "sign") if k in kinds), None)
            assert "linear" not in kinds or len(kinds) == 1
