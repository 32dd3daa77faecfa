"""Reductions over dimensions.

Dims: those that are not reduced. Mixing: the reduced ones. Homogeneity and parity: :data:`_LAWS`, of a slice
as a whole; a reduced dim itself may be scaled only as far as absolute values allow, under norms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from wsl.trace._axes import size_of
from wsl.trace._facts import Operand, Value, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule
from wsl.trace.rules._laws import Law, assign_broadcast, combine

_LINEAR = ("sum", "mean", "nansum")
_NORMS = ("linalg_vector_norm", "norm")
_LAWS: dict[str, tuple[Law, ...]] = {
    "amax": (Law(1),),
    "amin": (Law(1),),
    "aminmax": (Law(1), Law(1)),
    "std": (Law(1, "even"),),
    "var": (Law(2, "even"),),
    "std_mean": (Law(1, "even"), Law(1, "odd")),
    "var_mean": (Law(2, "even"), Law(1, "odd")),
    "any": (Law(0, "even"),),
    "all": (Law(0, "even"),),
    "count_nonzero": (Law(0, "even"),),
    "logsumexp": (Law(),),
    # The value does not depend on the order of the slice; what an index points into is fixed if it is read.
    **dict.fromkeys(("max", "min", "median", "nanmedian", "kthvalue", "mode"), (Law(1), Law(0))),
    **dict.fromkeys(("argmax", "argmin"), (Law(0),)),
}


def reduced_dims(argument: Any, rank: int) -> tuple[int, ...]:
    """The reduced dims: all of them if the argument is missing or empty."""
    if argument is None or (isinstance(argument, (list, tuple)) and not argument):
        return tuple(range(rank))
    listed: Sequence[int] = argument if isinstance(argument, (list, tuple)) else (argument,)
    return tuple(dim % rank for dim in listed) if rank else ()


def _prepare(trace: Recorder, call: Call) -> tuple[Operand, list[Operand], tuple[int, ...]]:
    """The input, the outputs, and the dims that are reduced."""
    x = trace.value(call.tensors[0])
    rank = len(x.dims)
    reduced = reduced_dims(call.get("dim"), rank)
    kept = tuple(i for i in range(rank) if i not in reduced)
    outs = []
    for tensor in call.outs:
        keeps = tensor.dim() == rank
        labels = tuple(i if i in kept else None for i in range(rank)) if keeps else kept
        dims = [() if i is None else x.dims[i] for i in labels]
        outs.append(Operand(trace.assign(tensor, dims), labels))
    return Operand(x, tuple(range(rank))), outs, reduced


def _linear(trace: Recorder, call: Call) -> None:
    x, (out,), _ = _prepare(trace, call)
    trace.facts.multiply([x], out)


def _lawful(trace: Recorder, call: Call) -> None:
    x, outs, reduced = _prepare(trace, call)
    for out, law in zip(outs, _LAWS[call.name], strict=False):
        trace.facts.apply(x, out, law.degree, law.parity)
    for out in outs if call.name.startswith("arg") else outs[1:]:
        if not call.outs[outs.index(out)].is_floating_point():
            out.value.indexes = tuple((x.value.dims[i], trace.reason()) for i in reduced)


def _product(trace: Recorder, call: Call) -> None:
    x, (out,), reduced = _prepare(trace, call)
    count = math.prod(size_of(x.value.dims[i]) for i in reduced)
    trace.facts.apply(x, out, count, "odd" if count % 2 else "even")


def _norm(trace: Recorder, call: Call) -> None:
    """A norm of absolute values, which hide the signs along the reduced dims too."""
    x, (out,), _ = _prepare(trace, call)
    order = call.get("ord", call.get("p", 2))
    magnitudes = Operand(Value(x.value.dims), x.labels)
    trace.facts.apply(x, magnitudes, 1, "even")
    trace.facts.apply(magnitudes, out, 0 if order == 0 else 1)


def _extremum(trace: Recorder, call: Call) -> None:
    """``max`` and ``min`` are reductions, or compare two tensors."""
    if not isinstance(call.get("other"), Tensor):
        return _lawful(trace, call)
    values = [trace.value(call["self"]), trace.value(call["other"])]
    out = assign_broadcast(trace, call, values)
    return combine(trace, map(aligned, values), aligned(out), Law(1))


RULES: dict[str, Rule] = {
    **dict.fromkeys(_LAWS, _lawful),
    **dict.fromkeys(_LINEAR, _linear),
    **dict.fromkeys(_NORMS, _norm),
    **dict.fromkeys(("max", "min"), _extremum),
    "prod": _product,
}
