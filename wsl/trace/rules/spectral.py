"""Fourier transforms, and complex numbers as pairs of real ones.

Dims: those of the input; the transformed ones, and the two parts of a number, are fixed. Mixing: the same.
Homogeneity: linear.
"""

from wsl.trace._facts import Operand, Value, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule
from wsl.trace.rules._laws import assign_broadcast, without


def _transform(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    rank = len(x.dims)
    along = [i % rank for i in call["dim"]]
    for i in along:
        trace.fix(x.dims[i])
    new = trace.fixed(call.out.shape)
    out = trace.assign(call.out, [new[i] if i in along else dim for i, dim in enumerate(x.dims)])
    labels = without(range(rank), along)
    trace.facts.multiply([Operand(x, labels)], Operand(out, labels))


def _to_parts(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    out = trace.assign(call.out, (*x.dims, *trace.fixed([2], "position")), x.constancy)
    labels = tuple(range(len(x.dims)))
    trace.facts.multiply([Operand(x, labels)], Operand(out, (*labels, None)))


def _from_parts(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    trace.fix(x.dims[-1], "position")
    out = trace.assign(call.out, x.dims[:-1], x.constancy)
    labels = tuple(range(len(out.dims)))
    trace.facts.multiply([Operand(x, (*labels, None))], Operand(out, labels))


def _complex(trace: Recorder, call: Call) -> None:
    """``real + i imag``."""
    parts = [trace.value(call["real"]), trace.value(call["imag"])]
    trace.facts.add(map(aligned, parts), aligned(assign_broadcast(trace, call, parts)))


def _polar(trace: Recorder, call: Call) -> None:
    """``abs exp(i angle)``."""
    radius, angle = trace.value(call["abs"]), trace.value(call["angle"])
    direction = Value(angle.dims)
    trace.facts.apply(aligned(angle), aligned(direction))
    out = assign_broadcast(trace, call, [radius, angle])
    trace.facts.multiply([aligned(radius), aligned(direction)], aligned(out))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("_fft_r2c", "_fft_c2c", "_fft_c2r"), _transform),
    "complex": _complex,
    "polar": _polar,
    "view_as_complex": _from_parts,
    "view_as_real": _to_parts,
}
