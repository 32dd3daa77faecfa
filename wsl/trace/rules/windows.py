"""Windows along positions: ``unfold``, ``im2col`` and ``col2im``.

Dims: channels stay free; positions and places within a window are fixed. Mixing: the positions.
Homogeneity: linear.
"""

import math

from wsl.trace._axes import AxisVariable, Dim, is_fixed, size_of
from wsl.trace._facts import Operand, Value
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule
from wsl.trace._unify import regroup
from wsl.trace.rules._laws import without


def _unfold(trace: Recorder, call: Call) -> None:
    """Windows of one dim; if they neither overlap nor leave a rest, its index is read as a product."""
    x = trace.value(call["self"])
    if not x.dims:
        out = trace.assign(call.out, trace.fixed(call.out.shape, "position"))
        return trace.facts.multiply([Operand(x, ())], Operand(out, (None,)))
    dim, size = call["dimension"] % len(x.dims), call["size"]
    before, after = x.dims[:dim], x.dims[dim + 1 :]
    labels = tuple(range(len(x.dims)))
    if call["step"] == size and call["self"].shape[dim] % size == 0:
        count, place = regroup([x.dims[dim]], [call.out.shape[dim], size], trace.reason)
        spread = Value((*before, count, place, *after))
        trace.facts.rearrange(x, spread)
        source = Operand(spread, (*labels[: dim + 1], "place", *labels[dim + 1 :]))
        out = trace.assign(call.out, (*before, count, *after, place), x.constancy)
        return trace.facts.multiply([source], Operand(out, (*labels, "place")))
    if not is_fixed(x.dims[dim]):
        trace.fix(x.dims[dim], "position")
    count, place = trace.fixed([call.out.shape[dim], size], "position")
    out = trace.assign(call.out, (*before, count, *after, place))
    kept = without(labels, (dim,))
    return trace.facts.multiply([Operand(x, kept)], Operand(out, (*kept, None)))


def _columns(trace: Recorder, call: Call) -> None:
    """``im2col`` from ``(N, C, H, W)`` to ``(N, C window, L)``, and ``col2im`` back; N may be missing."""
    x = trace.value(call["self"])
    window = math.prod(call["kernel_size"])
    apart = call.name == "im2col"
    batch = tuple(range(len(x.dims) - (3 if apart else 2)))
    columns = x.dims[len(batch)] if not apart else ()
    channels: Dim = x.dims[len(batch)] if apart else _variable(size_of(columns) // window)
    places = trace.fixed([window], "position")
    for dim in x.dims[len(batch) + 1 :]:
        if not is_fixed(dim):
            trace.fix(dim, "position")
    new = trace.fixed(call.out.shape[len(batch) + 1 :], "position")
    lead = x.dims[: len(batch)]
    if apart:
        out = trace.assign(call.out, (*lead, channels + places[0], *new))
        columns_value, pixels = Value((*lead, channels, *places, *new)), x
        trace.facts.multiply(
            [Operand(pixels, (*batch, "c", None, None))], Operand(columns_value, (*batch, "c", None, None))
        )
        return trace.facts.rearrange(columns_value, out)
    trace.unify(columns, channels + places[0])
    columns_value = Value((*lead, channels, *places, *x.dims[len(batch) + 1 :]))
    trace.facts.rearrange(x, columns_value)
    out = trace.assign(call.out, (*lead, channels, *new))
    return trace.facts.multiply(
        [Operand(columns_value, (*batch, "c", None, None))], Operand(out, (*batch, "c", None, None))
    )


def _variable(size: int) -> Dim:
    return (AxisVariable(size),) if size > 1 else ()


RULES: dict[str, Rule] = {
    **dict.fromkeys(("im2col", "col2im"), _columns),
    "unfold": _unfold,
}
