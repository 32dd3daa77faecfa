"""Functions of the entries of several tensors at each index: sums, products, choices, comparisons.

Dims: those of the broadcast. Mixing: none, as dims are aligned from the last one.
"""

from typing import Any

from torch import Tensor

from wsl.trace._facts import Value, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule
from wsl.trace.rules._laws import Law, apply_law, assign_broadcast, combine, entangle

_ENTANGLED = (
    "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "atan2", "fmod",
    "remainder", "floor_divide", "logaddexp", "logaddexp2", "xlogy", "hypot", "copysign",
    "nextafter", "heaviside",
)  # fmt: skip
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _comparison(trace: Recorder, call: Call) -> None:
    """Comparing with zero looks at signs only, and comparing two tensors at those of differences."""
    if isinstance(call["other"], Tensor):
        values = [trace.value(tensor) for tensor in call.tensors]
        out = assign_broadcast(trace, call, values)
        return combine(trace, map(aligned, values), aligned(out), Law(0))
    if call["other"] == 0:
        return apply_law(trace, call, Law(0, "even" if call.name in ("eq", "ne") else None))
    return entangle(trace, call)


def _nonzero_number(*numbers: Any) -> bool:
    return any(not isinstance(number, Tensor) and number != 0 for number in numbers)


def _sum(trace: Recorder, call: Call) -> None:
    """``add``, ``sub``, ``rsub`` of tensors, or of a tensor and a number."""
    values = [trace.value(tensor) for tensor in call.tensors]
    out = assign_broadcast(trace, call, values)
    if _nonzero_number(call["self"], call["other"]):
        combine(trace, map(aligned, values), aligned(out))
    else:
        trace.facts.add(map(aligned, values), aligned(out))


def _maximum(trace: Recorder, call: Call) -> None:
    """``maximum`` and ``minimum``: homogeneous in both operands together."""
    values = [trace.value(tensor) for tensor in call.tensors]
    combine(trace, map(aligned, values), aligned(assign_broadcast(trace, call, values)), Law(1))


def _choice(trace: Recorder, call: Call) -> None:
    """``where(condition, a, b)``."""
    condition, *options = (trace.value(tensor) for tensor in call.tensors)
    out = assign_broadcast(trace, call, [condition, *options])
    trace.facts.opaque(condition)
    if _nonzero_number(call["self"], call["other"]):
        combine(trace, map(aligned, options or [condition]), aligned(out))
    else:
        trace.facts.add(map(aligned, options), aligned(out))


def _masked_fill(trace: Recorder, call: Call) -> None:
    x, mask = trace.value(call["self"]), trace.value(call["mask"])
    out = assign_broadcast(trace, call, [x, mask])
    trace.facts.opaque(mask)
    if isinstance(call["value"], Tensor) or call["value"] != 0:
        combine(trace, [aligned(x)], aligned(out))
    else:
        trace.facts.add([aligned(x)], aligned(out))


def _product(trace: Recorder, call: Call) -> None:
    values = [trace.value(tensor) for tensor in call.tensors]
    out = assign_broadcast(trace, call, values)
    trace.facts.multiply(map(aligned, values), aligned(out))


def _quotient(trace: Recorder, call: Call) -> None:
    if call.get("rounding_mode") is not None:
        return entangle(trace, call)
    if not isinstance(call["self"], Tensor):
        return apply_law(trace, call, Law(-1, "odd"))
    values = [trace.value(tensor) for tensor in call.tensors]
    out = assign_broadcast(trace, call, values)
    return trace.facts.multiply(map(aligned, values), aligned(out), (1, -1)[: len(values)])


def _product_added(trace: Recorder, call: Call) -> None:
    """``addcmul`` and ``addcdiv``: ``self + value * a * b`` or ``self + value * a / b``."""
    x, a, b = (trace.value(tensor) for tensor in call.tensors)
    product = Value(trace.broadcast([a, b]))
    trace.facts.multiply([aligned(a), aligned(b)], aligned(product), (1, 1 if call.name == "addcmul" else -1))
    out = assign_broadcast(trace, call, [x, product])
    trace.facts.add([aligned(x), aligned(product)], aligned(out))


def _interpolation(trace: Recorder, call: Call) -> None:
    """``lerp(a, b, weight)``."""
    a, b, *weight = (trace.value(tensor) for tensor in call.tensors)
    out = assign_broadcast(trace, call, [a, b, *weight])
    trace.facts.opaque(*weight)
    trace.facts.add([aligned(a), aligned(b)], aligned(out))


def _copy(trace: Recorder, call: Call) -> None:
    """``copy_``: the source is broadcast to the destination."""
    target, source = trace.value(call["self"]), trace.value(call["src"])
    out = trace.assign(call.out, trace.broadcast([target, source]))
    if call["src"].dtype.is_floating_point and not call.out.is_floating_point():
        combine(trace, [aligned(source)], aligned(out))
    else:
        trace.facts.add([aligned(source)], aligned(out))


RULES: dict[str, Rule] = {
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(_ENTANGLED, entangle),
    **dict.fromkeys(("add", "sub", "rsub"), _sum),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin"), _maximum),
    **dict.fromkeys(("addcmul", "addcdiv"), _product_added),
    "copy": _copy,
    "div": _quotient,
    "lerp": _interpolation,
    "masked_fill": _masked_fill,
    "mul": _product,
    "where": _choice,
}
