"""Functions of the entries at each index: activations, arithmetic, comparisons, copies."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from wsl.trace._facts import Parity, Value, aligned
from wsl.trace._recorder import Call, Recorder, Rule


class _Law(NamedTuple):
    """How a function of one entry behaves under scaling: see :class:`wsl.trace._facts.Apply`."""

    degree: float | None = None
    parity: Parity | None = None


_ACTIVATIONS: dict[str, _Law] = {
    **dict.fromkeys(("relu", "leaky_relu"), _Law(1)),
    **dict.fromkeys(
        ("tanh", "sin", "erf", "atan", "asin", "sinh", "asinh", "tan", "hardshrink", "softshrink"),
        _Law(parity="odd"),
    ),
    **dict.fromkeys(("cos", "cosh", "sinc"), _Law(parity="even")),
    **dict.fromkeys(
        ("elu", "celu", "gelu", "silu", "mish", "sigmoid", "softplus", "hardswish", "hardsigmoid", "exp"),
        _Law(),
    ),
}
_FUNCTIONS: dict[str, _Law] = {
    "abs": _Law(1, "even"),
    "sign": _Law(0, "odd"),
    "sgn": _Law(0, "odd"),
    "sqrt": _Law(0.5),
    "rsqrt": _Law(-0.5),
    "reciprocal": _Law(-1, "odd"),
    "square": _Law(2, "even"),
    **dict.fromkeys(("round", "trunc", "atanh", "erfinv"), _Law(parity="odd")),
    **dict.fromkeys(
        (
            "exp2", "expm1", "log", "log2", "log10", "log1p", "floor", "ceil", "frac", "logit", "erfc", "acos",
            "acosh", "isnan", "isinf", "isfinite", "logical_not", "bitwise_not", "lgamma", "digamma",
            "nan_to_num",
        ),
        _Law(),
    ),
}  # fmt: skip
_LINEAR = (
    "clone", "alias", "detach", "lift_fresh", "lift_fresh_copy", "_to_copy", "to", "contiguous", "neg", "positive",
    "conj", "_conj", "_neg_view", "resolve_conj", "resolve_neg", "alias_copy", "detach_copy", "dropout",
)  # fmt: skip
_COMPARISONS = (
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or",
    "bitwise_xor", "atan2", "fmod", "remainder", "floor_divide", "logaddexp", "logaddexp2", "xlogy", "isclose",
    "hypot", "copysign", "nextafter", "heaviside",
)  # fmt: skip


def _apply(trace: Recorder, call: Call, law: _Law, name: str | None = None) -> None:
    x = trace.value(call.tensors[0])
    for tensor in call.outs:
        out = trace.assign(tensor, x.dims)
        trace.facts.apply(aligned(x), aligned(out), law.degree, law.parity, name)


def _activation(trace: Recorder, call: Call) -> None:
    _apply(trace, call, _ACTIVATIONS[call.name], call.name)


def _function(trace: Recorder, call: Call) -> None:
    _apply(trace, call, _FUNCTIONS[call.name])


def _log_sigmoid(trace: Recorder, call: Call) -> None:
    """Returns a scratch buffer too, which is empty or of the input's shape."""
    x = trace.value(call["self"])
    for tensor in call.outs:
        out = trace.assign(
            tensor, x.dims if tensor.shape == call["self"].shape else trace.fixed(tensor.shape)
        )
        trace.facts.opaque(out)
    trace.facts.apply(aligned(x), aligned(x), name="log_sigmoid")


def _threshold(trace: Recorder, call: Call) -> None:
    """``x`` above a threshold, and another value below: ReLU where both are zero."""
    _apply(trace, call, _Law(1) if call["threshold"] == call["value"] == 0 else _Law(), "threshold")


def _clamp(trace: Recorder, call: Call) -> None:
    """Clamping: ReLU from zero upward, odd between opposite bounds."""
    low, high = call.get("min", call.get("min_val")), call.get("max", call.get("max_val"))
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        return _entangled(trace, call)
    if (low == 0 and high is None) or (high == 0 and low is None):
        return _apply(trace, call, _Law(1), "relu")
    odd = low is not None and high is not None and low == -high
    return _apply(trace, call, _Law(parity="odd" if odd else None), call.name)


def _prelu(trace: Recorder, call: Call) -> None:
    """Leaky ReLU with a learned slope, which may not be scaled."""
    x, slope = map(trace.value, call.tensors)
    out = trace.assign(call.out, trace.broadcast([x, slope]))
    trace.facts.apply(aligned(x), aligned(out), degree=1, name="prelu")
    trace.facts.opaque(slope)


def _power(trace: Recorder, call: Call) -> None:
    base, exponent = call["self"], call["exponent"]
    if isinstance(exponent, Tensor) or not isinstance(base, Tensor):
        return _entangled(trace, call)
    parity: Parity | None = None
    if float(exponent).is_integer():
        parity = "odd" if int(exponent) % 2 else "even"
    return _apply(trace, call, _Law(exponent, parity))


def _broadcast_out(trace: Recorder, call: Call, values: Sequence[Value]) -> Value:
    dims = trace.broadcast(values)
    for tensor in call.outs[1:]:
        trace.facts.opaque(trace.assign(tensor, dims))
    return trace.assign(call.outs[0], dims)


def _entangled(trace: Recorder, call: Call) -> None:
    """Any function of several entries at each index."""
    values = [trace.value(tensor) for tensor in call.tensors]
    trace.facts.opaque(*values, _broadcast_out(trace, call, values))


def _rrelu(trace: Recorder, call: Call) -> None:
    """Leaky ReLU with the mean slope, as the module is in evaluation mode."""
    _apply(trace, call, _Law() if call["training"] else _Law(1), "rrelu")


def _linear(trace: Recorder, call: Call) -> None:
    """Copies; and conversions, which are linear unless they round."""
    x = trace.value(call.tensors[0])
    if call.tensors[0].dtype.is_floating_point and not (
        call.out.is_floating_point() or call.out.is_complex()
    ):
        return _apply(trace, call, _Law())
    out = trace.assign(call.out, x.dims, x.constancy)
    return trace.facts.same(x, out)


def _nonzero_number(*numbers: Any) -> bool:
    return any(not isinstance(number, Tensor) and number != 0 for number in numbers)


def _sum(trace: Recorder, call: Call) -> None:
    """``add``, ``sub``, ``rsub`` of tensors, or of a tensor and a number."""
    values = [trace.value(tensor) for tensor in call.tensors]
    out = _broadcast_out(trace, call, values)
    if _nonzero_number(call["self"], call["other"]):
        trace.facts.opaque(*values, out)
    else:
        trace.facts.add(map(aligned, values), aligned(out))


def _maximum(trace: Recorder, call: Call) -> None:
    """``maximum`` and ``minimum``: homogeneous in both operands together."""
    values = [trace.value(tensor) for tensor in call.tensors]
    out = _broadcast_out(trace, call, values)
    total = Value(out.dims)
    trace.facts.add(map(aligned, values), aligned(total))
    trace.facts.apply(aligned(total), aligned(out), degree=1)


def _choice(trace: Recorder, call: Call) -> None:
    """``where(condition, a, b)``."""
    condition, *options = (trace.value(tensor) for tensor in call.tensors)
    out = _broadcast_out(trace, call, [condition, *options])
    trace.facts.opaque(condition)
    if _nonzero_number(call["self"], call["other"]):
        trace.facts.opaque(*options, out)
    else:
        trace.facts.add(map(aligned, options), aligned(out))


def _masked_fill(trace: Recorder, call: Call) -> None:
    x, mask = trace.value(call["self"]), trace.value(call["mask"])
    out = _broadcast_out(trace, call, [x, mask])
    trace.facts.opaque(mask)
    if isinstance(call["value"], Tensor) or call["value"] != 0:
        trace.facts.opaque(x, out)
    else:
        trace.facts.add([aligned(x)], aligned(out))


def _product(trace: Recorder, call: Call) -> None:
    values = [trace.value(tensor) for tensor in call.tensors]
    out = _broadcast_out(trace, call, values)
    trace.facts.multiply(map(aligned, values), aligned(out))


def _quotient(trace: Recorder, call: Call) -> None:
    if call.get("rounding_mode") is not None:
        return _entangled(trace, call)
    if not isinstance(call["self"], Tensor):
        return _apply(trace, call, _Law(-1, "odd"))
    values = [trace.value(tensor) for tensor in call.tensors]
    out = _broadcast_out(trace, call, values)
    return trace.facts.multiply(map(aligned, values), aligned(out), (1, -1)[: len(values)])


def _product_added(trace: Recorder, call: Call) -> None:
    """``addcmul`` and ``addcdiv``: ``self + value * a * b`` or ``self + value * a / b``."""
    x, a, b = (trace.value(tensor) for tensor in call.tensors)
    product = Value(trace.broadcast([a, b]))
    trace.facts.multiply([aligned(a), aligned(b)], aligned(product), (1, 1 if call.name == "addcmul" else -1))
    out = _broadcast_out(trace, call, [x, product])
    trace.facts.add([aligned(x), aligned(product)], aligned(out))


def _interpolation(trace: Recorder, call: Call) -> None:
    """``lerp(a, b, weight)``."""
    a, b, *weight = (trace.value(tensor) for tensor in call.tensors)
    out = _broadcast_out(trace, call, [a, b, *weight])
    trace.facts.opaque(*weight)
    trace.facts.add([aligned(a), aligned(b)], aligned(out))


def _copy(trace: Recorder, call: Call) -> None:
    """``copy_``: the source is broadcast to the destination."""
    target, source = trace.value(call["self"]), trace.value(call["src"])
    out = trace.assign(call.out, trace.broadcast([target, source]))
    if call["src"].dtype.is_floating_point and not call.out.is_floating_point():
        trace.facts.opaque(source, out)
    else:
        trace.facts.add([aligned(source)], aligned(out))


RULES: dict[str, Rule] = {
    **dict.fromkeys(_ACTIVATIONS, _activation),
    **dict.fromkeys(_FUNCTIONS, _function),
    **dict.fromkeys(_LINEAR, _linear),
    **dict.fromkeys(_COMPARISONS, _entangled),
    **dict.fromkeys(("add", "sub", "rsub"), _sum),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin"), _maximum),
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "hardtanh"), _clamp),
    **dict.fromkeys(("addcmul", "addcdiv"), _product_added),
    "_prelu_kernel": _prelu,
    "copy": _copy,
    "div": _quotient,
    "lerp": _interpolation,
    "log_sigmoid_forward": _log_sigmoid,
    "masked_fill": _masked_fill,
    "mul": _product,
    "pow": _power,
    "rrelu_with_noise": _rrelu,
    "threshold": _threshold,
    "where": _choice,
}
