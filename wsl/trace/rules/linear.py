"""Contractions: ``mm``, ``addmm``, ``bmm``, ``baddbmm``, ``addbmm``, ``mv``, ``addmv``, ``dot``.

Dims: those of equal labels are the same. Mixing: the contracted ones. Homogeneity: linear in each operand.
"""

from torch import Tensor

from wsl.trace._axes import Dim
from wsl.trace._facts import Operand, Value, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule

_LABELS = {
    "mm": ("mk", "kn", "mn"),
    "bmm": ("bmk", "bkn", "bmn"),
    "bmm summed": ("bmk", "bkn", "mn"),
    "mv": ("mk", "k", "m"),
    "dot": ("k", "k", ""),
    "vdot": ("k", "k", ""),
}
_WITH_BIAS = {"addmm": "mm", "_sparse_addmm": "mm", "addbmm": "bmm summed", "baddbmm": "bmm", "addmv": "mv"}


def _contract(trace: Recorder, name: str, left: Tensor, right: Tensor) -> Value:
    """The product of two tensors, summed over label ``k``."""
    operands = [
        Operand(trace.value(t), tuple(text)) for t, text in zip((left, right), _LABELS[name], strict=False)
    ]
    dims: dict[object, Dim] = {}
    for value, labels in operands:
        for label, dim in zip(labels, value.dims, strict=True):
            dims[label] = trace.unify(dims.get(label, dim), dim)
    out = Operand(Value(tuple(dims[label] for label in _LABELS[name][2])), tuple(_LABELS[name][2]))
    trace.facts.multiply(operands, out)
    if operands[0].value.weight or operands[1].value.weight:
        trace.features.append(dims["k"])
    if operands[0].value.weight != operands[1].value.weight:
        label = "m" if operands[0].value.weight else "n"
        trace.produced += [(dims[label], "h")] if label in dims else []
    return out.value


def _product(trace: Recorder, call: Call) -> None:
    left, right = call.tensors
    trace.values.set(call.out, _contract(trace, call.name, left, right))


def _product_and_bias(trace: Recorder, call: Call) -> None:
    """``beta * bias + alpha * (left @ right)``, the bias broadcast."""
    bias, left, right = call.tensors
    terms = [_contract(trace, _WITH_BIAS[call.name], left, right), trace.value(bias)]
    out = trace.assign(call.out, trace.broadcast(terms))
    trace.facts.add(map(aligned, terms), aligned(out))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot"), _product),
    **dict.fromkeys(_WITH_BIAS, _product_and_bias),
}
