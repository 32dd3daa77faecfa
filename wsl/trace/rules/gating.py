"""Gated linear units: one half of a dimension is multiplied by the sigmoid of the other.

Dims: the halves lie on the same axis. Mixing: none. Homogeneity: linear in the first half.
"""

from wsl.trace._axes import size_of
from wsl.trace._facts import Value, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule
from wsl.trace.rules.parts import pieces_of


def _glu(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    dim = call["dim"] % len(x.dims)
    half = size_of(x.dims[dim]) // 2
    first, second = pieces_of(trace, x.dims[dim], [half, half])
    trace.unify(first, second)
    linear, gate, opened = (
        Value((*x.dims[:dim], part, *x.dims[dim + 1 :])) for part in (first, second, second)
    )
    trace.facts.cut(linear, x, dim, 0)
    trace.facts.cut(gate, x, dim, half)
    trace.facts.apply(aligned(gate), aligned(opened), name="sigmoid")
    trace.facts.multiply([aligned(linear), aligned(opened)], aligned(trace.assign(call.out, linear.dims)))


RULES: dict[str, Rule] = {"glu": _glu}
