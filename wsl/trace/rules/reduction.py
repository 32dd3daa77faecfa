"""Reductions over dimensions, and operators that depend on the order along a dimension."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from wsl.trace._axes import Dim
from wsl.trace._facts import Operand, Value, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule

_LINEAR = ("sum", "mean", "nansum")
_DEGREES = {
    "amax": 1,
    "amin": 1,
    "max": 1,
    "min": 1,
    "aminmax": 1,
    "std": 1,
    "var": 2,
    "linalg_vector_norm": 1,
}
_OTHER = ("prod", "any", "all", "logsumexp", "std_mean", "var_mean")
_SCANS = ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin")
_ORDERED = (*_SCANS, "flip", "roll", "sort", "topk", "argmax", "argmin", "argsort")


def _dims(argument: Any, rank: int) -> tuple[int, ...]:
    """The reduced dims: all of them if the argument is missing or empty."""
    if argument is None or (isinstance(argument, (list, tuple)) and not argument):
        return tuple(range(rank))
    listed: Sequence[int] = argument if isinstance(argument, (list, tuple)) else (argument,)
    return tuple(dim % max(rank, 1) for dim in listed)


def _reduction(trace: Recorder, call: Call) -> None:
    x = trace.value(call.tensors[0])
    rank = len(x.dims)
    reduced = _dims(call.get("dim"), rank)
    kept = tuple(i for i in range(rank) if i not in reduced)
    keepdim = call.get("keepdim", False)
    dims: tuple[Dim, ...] = tuple(
        () if i in reduced else x.dims[i] for i in (range(rank) if keepdim else kept)
    )
    labels = tuple(None if i in reduced else i for i in range(rank)) if keepdim else kept
    values = [trace.assign(tensor, dims) for tensor in call.outs]
    operand, out = Operand(x, tuple(range(rank))), Operand(values[0], labels)
    if call.name in _LINEAR:
        trace.facts.multiply([operand], out)
    elif call.name in _DEGREES and call.get("ord") != 0:
        trace.facts.apply(operand, out, degree=_DEGREES[call.name])
    else:
        trace.facts.opaque(x, values[0])
    trace.facts.opaque(*values[1:])
    if call.name in ("max", "min"):
        for value in values[1:]:
            value.indexes = tuple(x.dims[i] for i in reduced)


def _extremum(trace: Recorder, call: Call) -> None:
    """``max`` and ``min`` are reductions, or compare two tensors."""
    if isinstance(call.get("other"), Tensor):
        x, other = trace.value(call["self"]), trace.value(call["other"])
        out = trace.assign(call.out, trace.broadcast([x, other]))
        total = Value(out.dims)
        trace.facts.add([aligned(x), aligned(other)], aligned(total))
        return trace.facts.apply(aligned(total), aligned(out), degree=1)
    return _reduction(trace, call)


def _ordered(trace: Recorder, call: Call) -> None:
    """The result depends on the order along some dimensions: these are fixed."""
    x = trace.value(call.tensors[0])
    rank = len(x.dims)
    argument = call.get("dims", call.get("dim"))
    if argument is None and call.name in ("sort", "topk", "argsort"):
        argument = -1
    along = _dims(argument, rank)
    for i in along:
        trace.fix(x.dims[i])
    for tensor in call.outs:
        kept = range(rank) if tensor.dim() == rank else [i for i in range(rank) if i not in along]
        replaced = () if call.name in _SCANS else along
        dims = [
            trace.fixed([size])[0] if i in replaced else x.dims[i]
            for i, size in zip(kept, tensor.shape, strict=True)
        ]
        out = trace.assign(tensor, dims)
        if call.name in ("cumsum", "flip", "roll"):
            labels = tuple(None if i in along else i for i in range(rank))
            trace.facts.multiply([Operand(x, labels)], Operand(out, labels))
        else:
            trace.facts.opaque(x, out)


RULES: dict[str, Rule] = {
    **dict.fromkeys((*_LINEAR, *_DEGREES, *_OTHER), _reduction),
    **dict.fromkeys(("max", "min"), _extremum),
    **dict.fromkeys(_ORDERED, _ordered),
}
