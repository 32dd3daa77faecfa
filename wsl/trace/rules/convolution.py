"""Convolutions in any number of dimensions, transposed or not, grouped and depthwise.

Dims: channels are contracted, or ``(group, channel)`` where there are groups; kernel positions are fixed, and
so are positions, unless the kernel is a single point. Mixing: input channels of a group, and positions.
Homogeneity: linear in the input and in the weight.
"""

from wsl.trace._axes import AxisVariable, Dim, fix, is_fixed, size_of
from wsl.trace._facts import Operand, Value, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule


def _variable(size: int) -> Dim:
    return (AxisVariable(size),) if size > 1 else ()


def _channels(trace: Recorder, x: Value, weight: Value, call: Call) -> tuple[Dim, Dim, Dim]:
    """Tie input channels ``(g i)`` and output channels ``(g o)`` to the weight; returns g, i, o."""
    inward, outward = (0, 1) if call["transposed"] else (1, 0)
    count = call["groups"]
    if count == 1:
        return (), trace.unify(x.dims[1], weight.dims[inward]), weight.dims[outward]
    g = _variable(count)
    i, o = _variable(size_of(x.dims[1]) // count), _variable(call.out.shape[1] // count)
    trace.unify(x.dims[1], g + i)
    first, second = (i, o) if call["transposed"] else (o, i)
    trace.unify(weight.dims[0], g + first)
    trace.unify(weight.dims[1], second)
    return g, i, o


def _positions(trace: Recorder, x: Value, weight: Value, call: Call) -> list[Dim]:
    """Output positions: the input's where the kernel is a single point that neither strides nor pads."""
    positions: list[Dim] = []
    for axis, (dim, kernel) in enumerate(zip(x.dims[2:], weight.dims[2:], strict=True)):
        fix(kernel, trace.reason("position"))
        step, pad = (call[name][axis % len(call[name])] for name in ("stride", "padding"))
        if size_of(kernel) == 1 and step == 1 and pad == 0 and not any(call["output_padding"]):
            positions.append(dim)
            continue
        if not is_fixed(dim):
            trace.fix(dim, "position")
        positions += trace.fixed([call.out.shape[2 + axis]], "position")
    return positions


def _convolution(trace: Recorder, call: Call) -> None:
    x, weight = trace.value(call["input"]), trace.value(call["weight"])
    g, i, o = _channels(trace, x, weight, call)
    positions = _positions(trace, x, weight, call)
    trace.features.append(x.dims[1])
    count = len(positions)
    kernel_labels = tuple(f"kernel{axis}" for axis in range(count))
    # Positions that pass through keep one label; others are fixed, and tied to nothing.
    here = tuple(f"at{axis}" for axis in range(count))
    there = tuple(
        label if new is old else f"to{axis}"
        for axis, (label, new, old) in enumerate(zip(here, positions, x.dims[2:], strict=True))
    )
    grouped_x = Value((x.dims[0], g, i, *x.dims[2:]))
    grouped_weight = Value((g, i, o, *weight.dims[2:]) if call["transposed"] else (g, o, i, *weight.dims[2:]))
    grouped_out = Value((x.dims[0], g, o, *positions))
    out = Value((x.dims[0], g + o, *positions))
    trace.facts.rearrange(x, grouped_x)
    trace.facts.rearrange(weight, grouped_weight)
    weight_labels = ("g", "i", "o") if call["transposed"] else ("g", "o", "i")
    trace.facts.multiply(
        [
            Operand(grouped_x, ("n", "g", "i", *here)),
            Operand(grouped_weight, (*weight_labels, *kernel_labels)),
        ],
        Operand(grouped_out, ("n", "g", "o", *there)),
    )
    trace.facts.rearrange(grouped_out, out)
    if call["bias"] is not None:
        out = _add_bias(trace, out, trace.value(call["bias"]))
    trace.produced.append((out.dims[1], "c"))
    trace.values.set(call.out, out)


def _add_bias(trace: Recorder, out: Value, bias: Value) -> Value:
    trace.unify(out.dims[1], bias.dims[0])
    total = Value(out.dims)
    labels = aligned(out).labels
    trace.facts.add([aligned(out), Operand(bias, labels[1:2])], aligned(total))
    return total


RULES: dict[str, Rule] = {"convolution": _convolution}
