"""The tracer finds the groups that were derived by hand."""

import logging
from collections.abc import Iterable
from fractions import Fraction

import pytest
import torch
from architectures import KNOWN, Known, hidden_axes, written_axes
from architectures.residual import ResNet20, rebasin_resnet20

from wsl import WeightSpec, trace
from wsl.spec import Scaling

TEXTS = {name: row for name, row in KNOWN.items() if row.text is not None}


@pytest.fixture(autouse=True)
def _no_failing_rules(caplog):
    yield
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def traced(row: Known) -> WeightSpec:
    return trace(row.build(), row.inputs(), output=row.output)


@pytest.mark.parametrize("name", KNOWN)
def test_finds_the_axes_derived_by_hand(name):
    assert hidden_axes(traced(KNOWN[name])) == written_axes(KNOWN[name].axes)


@pytest.mark.parametrize("name", TEXTS)
def test_finds_the_specification_derived_by_hand(name):
    row = TEXTS[name]
    found, wanted = traced(row), WeightSpec.parse(row.text)
    assert hidden_axes(wanted) == written_axes(row.axes)
    assert without_scalings(found) == without_scalings(wanted)
    assert spans(found.scalings, wanted.scalings), f"{found}\n\nwanted:\n{wanted}"


def without_scalings(spec: WeightSpec) -> list[str]:
    """The lines of axes (with the kind of their scaling), tensors and notes."""
    lines = str(WeightSpec(spec.axes, spec.tensors, spec.scalings, spec.notes)).splitlines()
    return [line for line in lines if not line.startswith(("scaling:", "    "))]


def spans(found: Iterable[Scaling], wanted: Iterable[Scaling]) -> bool:
    """Whether two lists of generators generate the same scalings of every axis, of every kind."""
    sides = (tuple(found), tuple(wanted))
    groups = {(scaling.axis, scaling.kind) for side in sides for scaling in side}
    return all(
        len({rank(side, kind), rank(other, kind), rank([*side, *other], kind)}) == 1
        for axis, kind in groups
        for side, other in [[[s for s in side if (s.axis, s.kind) == (axis, kind)] for side in sides]]
    )


def rank(scalings: Iterable[Scaling], kind: str) -> int:
    """Dimension of what the exponents span: over the rationals, or modulo 2 if they are signs."""
    rows = [{(e.key, e.dim): Fraction(e.power) for e in scaling.exponents} for scaling in scalings]
    found = 0
    while rows:
        first = {key: power % 2 if kind == "sign" else power for key, power in rows.pop().items()}
        pivot = next((key for key, power in first.items() if power), None)
        if pivot is None:
            continue
        found += 1
        for row in rows:
            factor = row.get(pivot, Fraction(0)) / first[pivot]
            for key, power in first.items():
                row[key] = row.get(key, Fraction(0)) - factor * power
    return found


def test_generators_are_compared_by_what_they_span():
    def scaling(**powers: int) -> Scaling:
        return Scaling("h1", "positive", tuple(powers.items()))

    assert spans([scaling(a=1, b=1), scaling(b=1)], [scaling(a=1), scaling(a=2, b=-3)])
    assert not spans([scaling(a=1, b=1)], [scaling(a=1), scaling(b=1)])
    assert not spans([scaling(a=1)], [scaling(b=1)])
    assert not spans([scaling(a=1)], [Scaling("h1", "sign", (("a", 1),))])


def test_the_axes_of_resnet20_are_those_of_git_rebasin():
    by_hand = rebasin_resnet20()
    spec = trace(ResNet20(4), torch.randn(2, 3, 8, 8))
    assert by_hand.keys() == spec.tensors.keys()
    names: dict[str, str] = {}
    for tensor, written in by_hand.items():
        for dim, name in zip(spec.tensors[tensor].dims, written, strict=True):
            ((factor,),) = dim
            if name is None:
                assert isinstance(factor, int) or spec.axes[factor].kind != "hidden"
            else:
                assert names.setdefault(name, factor) == factor
    assert sorted(names.values()) == sorted(axis.name for axis in spec.hidden_axes)


def test_the_order_of_tensors_is_that_of_the_state_dict():
    row = KNOWN["vgg"]
    module = row.build()
    listed = [name for name in module.state_dict() if not name.endswith("num_batches_tracked")]
    assert list(trace(module, row.inputs()).tensors) == listed
