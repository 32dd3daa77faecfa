"""Functions of the entries of one tensor at each index: activations, powers, copies.

Dims: those of the input. Mixing: none. Homogeneity and parity: by the tables of laws.
"""

import math

from torch import Tensor

from wsl.trace._axes import fresh
from wsl.trace._facts import Parity, Value, aligned, derived
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule, Unsupported
from wsl.trace.rules._laws import Law, apply_law, entangle

_ACTIVATIONS: dict[str, Law] = {
    **dict.fromkeys(("relu", "leaky_relu"), Law(1)),
    **dict.fromkeys(
        ("tanh", "sin", "erf", "atan", "asin", "sinh", "asinh", "tan", "hardshrink", "softshrink"),
        Law(parity="odd"),
    ),
    **dict.fromkeys(("cos", "cosh", "sinc"), Law(parity="even")),
    **dict.fromkeys(
        ("elu", "celu", "gelu", "silu", "mish", "sigmoid", "softplus", "hardswish", "hardsigmoid", "exp"),
        Law(),
    ),
}
_FUNCTIONS: dict[str, Law] = {
    "abs": Law(1, "even"),
    "sign": Law(0, "odd"),
    "sgn": Law(0, "odd"),
    "sqrt": Law(0.5),
    "rsqrt": Law(-0.5),
    "reciprocal": Law(-1, "odd"),
    **dict.fromkeys(("angle", "signbit"), Law(0)),
    **dict.fromkeys(("i0", "special_i0e"), Law(parity="even")),
    **dict.fromkeys(("round", "trunc", "frac"), Law(parity="odd")),
    **dict.fromkeys(("atanh", "erfinv", "special_i1", "special_i1e"), Law(parity="odd")),
    **dict.fromkeys(
        (
            "exp2", "expm1", "log", "log2", "log10", "log1p", "floor", "ceil", "logit", "erfc",
            "acos", "acosh", "isnan", "isinf", "logical_not", "bitwise_not", "lgamma",
            "digamma", "nan_to_num", "special_erfcx", "special_ndtri", "special_log_ndtr",
        ),
        Law(),
    ),
}  # fmt: skip
_LINEAR = (
    "clone", "alias", "detach", "lift_fresh", "lift_fresh_copy", "_to_copy", "neg", "_conj",
    "_conj_physical", "_neg_view", "alias_copy", "detach_copy",
)  # fmt: skip


def _activation(trace: Recorder, call: Call) -> None:
    apply_law(trace, call, _ACTIVATIONS[call.name], call.name)


def _function(trace: Recorder, call: Call) -> None:
    apply_law(trace, call, _FUNCTIONS[call.name])


def _log_sigmoid(trace: Recorder, call: Call) -> None:
    """Returns a scratch buffer too, which is empty or of the input's shape."""
    x = trace.value(call["self"])
    out, buffer = call.outs
    trace.facts.apply(aligned(x), aligned(trace.assign(out, x.dims)), name="log_sigmoid")
    trace.facts.opaque(trace.assign(buffer, x.dims if buffer.numel() else trace.fixed(buffer.shape)))


def _threshold(trace: Recorder, call: Call) -> None:
    """``x`` above a threshold, and another value below: ReLU where both are zero."""
    apply_law(trace, call, Law(1) if call["threshold"] == call["value"] == 0 else Law(), "threshold")


def _clamp(trace: Recorder, call: Call) -> None:
    """Clamping: ReLU from zero upward, odd between opposite bounds."""
    low, high = call.get("min", call.get("min_val")), call.get("max", call.get("max_val"))
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        return entangle(trace, call)
    if (low == 0 and high is None) or (high == 0 and low is None):
        return apply_law(trace, call, Law(1), "relu")
    odd = low is not None and high is not None and low == -high
    return apply_law(trace, call, Law(parity="odd" if odd else None), call.name)


def _prelu(trace: Recorder, call: Call) -> None:
    """Leaky ReLU with a learned slope, which may not be scaled."""
    x, slope = map(trace.value, call.tensors)
    out = trace.assign(call.out, trace.broadcast([x, slope]))
    trace.facts.apply(aligned(x), aligned(out), degree=1, name="prelu")
    trace.facts.opaque(slope)


def _power(trace: Recorder, call: Call) -> None:
    base, exponent = call["self"], call["exponent"]
    if isinstance(exponent, Tensor) or not isinstance(base, Tensor):
        return entangle(trace, call)
    if isinstance(exponent, complex) or not math.isfinite(exponent):
        return apply_law(trace, call, Law())
    parity: Parity | None = None
    if float(exponent).is_integer():
        parity = "odd" if int(exponent) % 2 else "even"
    return apply_law(trace, call, Law(exponent, parity))


def _polygamma(trace: Recorder, call: Call) -> None:
    apply_law(trace, call, Law())


def _rrelu(trace: Recorder, call: Call) -> None:
    """Leaky ReLU with the mean slope, as the module is in evaluation mode."""
    apply_law(trace, call, Law() if call["training"] else Law(1), "rrelu")


def _linear(trace: Recorder, call: Call) -> None:
    """Copies; and conversions, which are linear unless they round."""
    if call.tensors[0].dtype.is_floating_point and not (
        call.out.is_floating_point() or call.out.is_complex()
    ):
        return apply_law(trace, call, Law())

    def copied(x: Value) -> Value:
        out = derived(x, x.dims)
        trace.facts.same(x, out)
        return out

    return trace.slicewise(call.tensors[0], call.out, copied)


def _dropout(trace: Recorder, call: Call) -> None:
    """The identity, unless it draws at random; the mask is full."""
    if call["train"] is not False and call["p"]:
        raise Unsupported
    x = trace.value(call["input"])
    out, mask = call.outs
    trace.facts.same(x, trace.assign(out, x.dims))
    trace.assign(mask, fresh(mask.shape), "constant").uses = []


RULES: dict[str, Rule] = {
    **dict.fromkeys(_ACTIVATIONS, _activation),
    **dict.fromkeys(_FUNCTIONS, _function),
    **dict.fromkeys(_LINEAR, _linear),
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "hardtanh"), _clamp),
    "_prelu_kernel": _prelu,
    "native_dropout": _dropout,
    "log_sigmoid_forward": _log_sigmoid,
    "polygamma": _polygamma,
    "pow": _power,
    "rrelu_with_noise": _rrelu,
    "threshold": _threshold,
}
