"""Writing at indices: ``index_put``, ``index_add``, ``index_copy``, ``index_fill``, ``scatter``.

Dims: those of the tensor that is written to. The indexed ones are fixed; what is written has dims of the
indices in their place, which are fixed too where the last write wins. Mixing: the dims of the indices.
Homogeneity: sums and choices are linear in both tensors, maxima and minima of degree 1.
"""

import torch
from torch import Tensor

from wsl.trace._facts import Operand, Value, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule, Unsupported
from wsl.trace.rules._indices import Positions, align_along
from wsl.trace.rules._laws import Law, combine, reduced

_SUMS = ("sum", "add", "mean")
_EXTREMA = ("amax", "amin")


def _write(
    trace: Recorder, x: Value, written: Operand | None, out: Tensor, reduce: str | None = None
) -> None:
    """Record a write of ``written``, whose dims without label are indexed; or of zeros."""
    labels = tuple(range(len(x.dims)))
    target, result = Operand(x, labels), Operand(trace.assign(out, x.dims), labels)
    operands = [target] if written is None else [target, written]
    if reduce is None or reduce in _SUMS:
        trace.facts.add([reduced(trace, operand, labels, linear=True) for operand in operands], result)
    else:
        combine(trace, operands, result, Law(1) if reduce in _EXTREMA else None)


def _write_number(trace: Recorder, x: Value, number: object, out: Tensor, reduce: str | None = None) -> None:
    """Record a write of a number."""
    if _is_zero(number) and reduce is None:
        return _write(trace, x, None, out)
    result = trace.assign(out, x.dims)
    return combine(trace, [aligned(x)], aligned(result))


def _is_zero(number: object) -> bool:
    """Whether a number, or a tensor that holds one, is zero."""
    if isinstance(number, Tensor):
        return number.numel() == 1 and not number.is_meta and number.item() == 0
    return number == 0


def _index_put(trace: Recorder, call: Call) -> None:
    if _masks_all(call):
        return _write_masked(trace, call)
    x, values = trace.value(call["self"]), trace.value(call["values"])
    at = Positions(trace, x, call["indices"])
    lead = len(at.layout) - len(values.dims)
    if lead < 0:
        raise Unsupported
    labels = [label if isinstance(label, int) else None for label in at.layout[lead:]]
    for label, dim in zip(at.layout[lead:], values.dims, strict=True):
        place = at.dim(x, label)
        if place is not None:
            trace.unify(place, dim)
        if place is None or not (isinstance(label, int) or call["accumulate"]):
            trace.fix(dim)
    if not call["accumulate"]:
        for value in at.values:
            for dim in value.dims:
                trace.fix(dim)
    trace.facts.opaque(*at.values)
    if call["accumulate"] or not _is_zero(call["values"]):
        _write(trace, x, Operand(values, tuple(labels)), call.out)
    else:
        _write(trace, x, None, call.out)
    return None


def _masks_all(call: Call) -> bool:
    """Whether one mask of the tensor's shape says where one number is written: ``x[x < 0] = 0``."""
    mask = call["indices"][0]
    return (
        len(call["indices"]) == 1
        and mask is not None
        and mask.dtype == torch.bool
        and mask.shape == call["self"].shape
        and call["values"].dim() == 0
        and not call["accumulate"]
    )


def _write_masked(trace: Recorder, call: Call) -> None:
    x, mask, number = (trace.value(t) for t in (call["self"], call["indices"][0], call["values"]))
    trace.broadcast([x, mask])
    trace.facts.opaque(mask)
    labels = tuple(range(len(x.dims)))
    if _is_zero(call["values"]):
        return _write(trace, x, None, call.out)
    out = Operand(trace.assign(call.out, x.dims), labels)
    return combine(trace, [Operand(x, labels), Operand(number, ())], out)


def _scatter(trace: Recorder, call: Call) -> None:
    x, index = trace.value(call["self"]), trace.value(call["index"])
    if not x.dims or not index.dims:
        raise Unsupported
    dim = call["dim"] % len(x.dims)
    reduce = call.get("reduce", "add" if call.name == "scatter_add" else None)
    source = call.get("src")
    values = [index] if source is None else [index, trace.value(source)]
    labels = align_along(trace, x, values, dim)
    if source is not None and source.shape[dim] == call["index"].shape[dim]:
        trace.unify(index.dims[dim], values[1].dims[dim])
        fixing = [] if reduce is not None else values
    else:
        fixing = values
    for value in fixing:
        trace.fix(value.dims[dim])
    trace.facts.opaque(index)
    if source is not None:
        _write(trace, x, Operand(values[1], labels), call.out, reduce)
    else:
        _write_number(trace, x, call["value"], call.out, reduce)


def _index_add(trace: Recorder, call: Call) -> None:
    """``index_add``, ``index_reduce`` and ``index_copy``: slices of a source along one dim."""
    x, index, source = (trace.value(call[name]) for name in ("self", "index", "source"))
    if not x.dims or not index.dims:
        raise Unsupported
    dim = call["dim"] % len(x.dims)
    labels = align_along(trace, x, [source], dim)
    trace.unify(index.dims[0], source.dims[dim])
    if call.name == "index_copy":
        trace.fix(source.dims[dim])
    trace.facts.opaque(index)
    reduce = {"index_add": "add", "index_copy": None}.get(call.name, call.get("reduce"))
    _write(trace, x, Operand(source, labels), call.out, reduce)


def _index_fill(trace: Recorder, call: Call) -> None:
    x, index = trace.value(call["self"]), trace.value(call["index"])
    if not x.dims:
        raise Unsupported
    trace.fix(x.dims[call["dim"] % len(x.dims)])
    for dim in index.dims:
        trace.fix(dim)
    trace.facts.opaque(index)
    _write_number(trace, x, call["value"], call.out)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("scatter", "scatter_add", "scatter_reduce"), _scatter),
    **dict.fromkeys(("index_add", "index_copy", "index_reduce"), _index_add),
    "index_fill": _index_fill,
    "index_put": _index_put,
}
