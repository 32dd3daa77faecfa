"""Functions of the entries at each index, and tensors made from nothing."""

import torch
import torch.nn.functional as F
from torch import Tensor

from rule_programs._program import Program, Rows

aten = torch.ops.aten
BOTH = "4, 6"


def _unary(name: str) -> Program:
    return Program(BOTH, lambda h: getattr(aten, name)(h))


def _binary(name: str) -> Program:
    return Program(BOTH, lambda h, w: getattr(aten, name)(h, w), {"w": (4,)})


def _logical(name: str) -> Program:
    return Program(BOTH, lambda h, w: getattr(aten, name)(h > 0.5, w > 0), {"w": (4,)})


def _filled(fill: Tensor, h: Tensor) -> Tensor:
    return fill.copy_(h) * h


def _looked(h: Tensor) -> Tensor:
    assert aten.is_same_size(h, h) and not h.is_pinned()
    return h


UNARY = (
    "relu", "leaky_relu", "tanh", "sin", "erf", "atan", "asin", "sinh", "asinh", "tan",
    "hardshrink", "softshrink", "cos", "cosh", "sinc", "elu", "celu", "gelu", "silu", "mish",
    "sigmoid", "softplus", "hardswish", "hardsigmoid", "exp", "abs", "sign", "sgn", "sqrt", "rsqrt",
    "reciprocal", "square", "angle", "signbit", "i0", "special_i0e", "special_i1", "special_i1e",
    "round", "trunc", "frac", "atanh", "erfinv", "exp2", "expm1", "log", "log2", "log10", "log1p",
    "floor", "ceil", "logit", "erfc", "acos", "isnan", "isinf", "isfinite", "logical_not", "lgamma",
    "digamma", "nan_to_num", "special_erfcx", "special_ndtri", "special_log_ndtr", "clone", "alias",
    "detach", "neg", "conj_physical", "_conj_physical", "selu", "relu6", "alias_copy",
    "detach_copy", "lift_fresh_copy",
)  # fmt: skip
BINARY = (
    "add", "sub", "rsub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "atan2", "fmod",
    "remainder", "floor_divide", "logaddexp", "logaddexp2", "hypot", "copysign", "nextafter",
    "heaviside", "pow", "eq", "ne", "lt", "le", "gt", "ge", "_prelu_kernel",
)  # fmt: skip
LOGICAL = ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor")
_FILLS = {
    "zeros_like": torch.zeros_like,
    "ones_like": torch.ones_like,
    "zeros": lambda h: torch.zeros(2, 6, 4, dtype=h.dtype),
    "new_zeros": lambda h: h.new_zeros(2, 6, 4),
    "empty": lambda h: torch.empty(2, 6, 4, dtype=h.dtype),
    "empty_like": torch.empty_like,
    "new_empty": lambda h: h.new_empty(2, 6, 4),
    "empty_strided": lambda h: torch.empty_strided((2, 6, 4), (24, 4, 1), dtype=h.dtype),
    "new_empty_strided": lambda h: h.new_empty_strided((2, 6, 4), (24, 4, 1)),
    "ones": lambda h: torch.ones(2, 6, 4, dtype=h.dtype),
    "new_ones": lambda h: h.new_ones(2, 6, 4),
    "full": lambda h: torch.full((2, 6, 4), 0.5, dtype=h.dtype),
    "full_like": lambda h: torch.full_like(h, 0.5),
    "new_full": lambda h: h.new_full((2, 6, 4), 0.5),
    "scalar_tensor": lambda h: aten.scalar_tensor(2.0, dtype=h.dtype).expand(2, 6, 4).clone(),
}
_SEQUENCES = {
    "arange": lambda: torch.arange(4),
    "linspace": lambda: torch.linspace(0, 1, 4),
    "logspace": lambda: torch.logspace(0, 1, 4),
    "eye": lambda: torch.eye(4)[1],
    "tril_indices": lambda: torch.tril_indices(4, 1)[0],
    "triu_indices": lambda: torch.triu_indices(1, 4)[1],
    "hann_window": lambda: torch.hann_window(4),
    "randperm": lambda: torch.randperm(4),
    "rand": lambda: torch.rand(4),
    "randn": lambda: torch.randn(4),
    "randint": lambda: torch.randint(3, (4,)),
    "rand_like": lambda: torch.rand_like(torch.ones(4)),
    "randn_like": lambda: torch.randn_like(torch.ones(4)),
    "randint_like": lambda: torch.randint_like(torch.ones(4), 3),
}
PROGRAMS: Rows = {
    **{name: _unary(name) for name in UNARY},
    **{name: _binary(name) for name in BINARY},
    **{name: _logical(name) for name in LOGICAL},
    **{name: Program(BOTH, lambda h, make=make: _filled(make(h), h)) for name, make in _FILLS.items()},  # type: ignore[misc]
    **{
        name: Program(f"6, 4!the constant {name}", lambda h, make=make: h + make())
        for name, make in _SEQUENCES.items()
    },  # type: ignore[misc]
    "acosh": Program(BOTH, lambda h: torch.acosh(1 + h)),
    "log_sigmoid": Program(BOTH, F.logsigmoid),
    "xlogy": Program(BOTH, lambda h, w: torch.xlogy(h, 1 + w * w), {"w": (4,)}),
    "xlog1py": Program(BOTH, lambda h, w: torch.special.xlog1py(h, w * w), {"w": (4,)}),
    "isclose": Program(BOTH, lambda h, w: aten.isclose(h, w), {"w": (4,)}),
    "bitwise_not": Program(BOTH, lambda h: ~(h > 0.5)),
    "add a number": Program(BOTH, lambda h: h + 1.0),
    "polygamma": Program(BOTH, lambda h: torch.polygamma(1, h)),
    "threshold": Program(BOTH, lambda h: F.threshold(h, 0.1, 20.0)),
    "clamp": Program(
        BOTH, lambda h, w: h.clamp(-1, 1).clamp_min(0.2).clamp_max(0.7).clamp(min=w), {"w": (4,)}
    ),
    "hardtanh": Program(BOTH, F.hardtanh),
    "rrelu": Program(BOTH, F.rrelu),
    "look": Program(BOTH, _looked),
    "dropout": Program(BOTH, lambda h: torch.native_dropout(h, 0.5, False)[0]),
    "dropout at random": Program(
        "4!native_dropout, 6!native_dropout", lambda h: torch.native_dropout(h, 0.5, True)[0] * 0 + h
    ),
    "glu": Program("3, 4, 6", lambda h, w: F.glu(w @ h, 1), {"w": (6, 6)}),
    "lerp": Program(BOTH, lambda h, w: torch.lerp(h, h * h, w), {"w": (4,)}),
    "where": Program(BOTH, lambda h, w: torch.where(h > w, h, w), {"w": (4,)}),
    "where of numbers": Program(BOTH, lambda h, w: torch.where(h > w, 1.0, 0.5), {"w": (4,)}),
    "masked_fill": Program(BOTH, lambda h, w: h.masked_fill(h > w, 2.0), {"w": (4,)}),
    "addcmul": Program(BOTH, lambda h, w: torch.addcmul(h, h, w).addcdiv(h, 2 + w * w), {"w": (4,)}),
    "fill": Program(BOTH, lambda h: h.clone().zero_() + h.clone().fill_(2.0) + h),
    "item": Program(BOTH, lambda h: h * h.mean().item()),
    "equal": Program(BOTH, lambda h, w: h if torch.equal(h.sum((0, 1)), w) else h * w, {"w": (4,)}),
    "to": Program(BOTH, lambda h: h.float().to(h.dtype).contiguous() + (h > 0.5).to(h.dtype)),
    "neg_view": Program(BOTH, lambda h: torch._neg_view(h) * h),
    "conj": Program(
        BOTH, lambda h: (torch.complex(h, h * h).conj() * torch.complex(h * h, h)).resolve_conj()
    ),
}
