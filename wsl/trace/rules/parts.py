"""Taking tensors apart and putting them together: slices, concatenation, padding."""

from collections.abc import Sequence

from torch import Tensor

from wsl.trace._axes import AxisVariable, Concatenation, Dim, is_fixed, size_of
from wsl.trace._facts import Operand, Value
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule, Unsupported
from wsl.trace._unify import cut, regroup
from wsl.trace.rules.shape import derive


def pieces_of(trace: Recorder, dim: Dim, sizes: Sequence[int]) -> list[Dim]:
    """Cut ``dim``; fixes it if the pieces cannot be expressed. Pieces of size 0 are ``()``."""
    pieces = cut(dim, [size for size in sizes if size])
    if pieces is None:
        trace.fix(dim)
        return list(trace.fixed(sizes))
    rest = iter(pieces)
    return [next(rest) if size else () for size in sizes]


def _range(trace: Recorder, x: Value, dim: int, start: int, tensor: Tensor, piece: Dim) -> None:
    out = derive(trace, x, tensor, (*x.dims[:dim], piece, *x.dims[dim + 1 :]))
    trace.facts.cut(out, x, dim, start)


def _slice(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    dim = call["dim"] % len(x.dims)
    size, length = call["self"].shape[dim], call.out.shape[dim]
    start = call["start"] or 0
    start = min(max(start + size if start < 0 else start, 0), size)
    if length == 0:
        raise Unsupported
    if length < size and (call.get("step") or 1) != 1:
        trace.fix(x.dims[dim])
        out = derive(trace, x, call.out, (*x.dims[:dim], *trace.fixed([length]), *x.dims[dim + 1 :]))
        labels = tuple(None if i == dim else i for i in range(len(x.dims)))
        return trace.facts.multiply([Operand(x, labels)], Operand(out, labels))
    piece = pieces_of(trace, x.dims[dim], [start, length, size - start - length])[1]
    return _range(trace, x, dim, start, call.out, piece)


def _split(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    dim = call["dim"] % len(x.dims)
    sizes = [tensor.shape[dim] for tensor in call.outs]
    start = 0
    for tensor, size, piece in zip(call.outs, sizes, pieces_of(trace, x.dims[dim], sizes), strict=True):
        if not size:
            raise Unsupported
        _range(trace, x, dim, start, tensor, piece)
        start += size


def _take(trace: Recorder, x: Value, dim: int, index: int, tensor: Tensor) -> None:
    """One index of a dim: it is set apart from the others, which stay free."""
    size = size_of(x.dims[dim])
    if not is_fixed(x.dims[dim]):
        pieces_of(trace, x.dims[dim], [index, 1, size - index - 1])
    out = derive(trace, x, tensor, x.dims[:dim] + x.dims[dim + 1 :])
    # The dims that stay keep their labels; the one that is lost has none, so it may not be scaled.
    labels = [i - (i > dim) if i != dim else None for i in range(len(x.dims))]
    trace.facts.move(x, labels, out)


def _select(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    dim = call["dim"] % len(x.dims)
    _take(trace, x, dim, call["index"] % call["self"].shape[dim], call.out)


def _unbind(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    for index, tensor in enumerate(call.outs):
        _take(trace, x, call["dim"] % len(x.dims), index, tensor)


def _cat(trace: Recorder, call: Call) -> None:
    rank = call.out.dim()
    dim = call["dim"] % rank
    # Empty tensors of rank one are left out, as torch does.
    parts = [trace.value(tensor) for tensor in call["tensors"] if tensor.dim() == rank and tensor.shape[dim]]
    for part in parts[1:]:
        for i in range(rank):
            if i != dim:
                trace.unify(parts[0].dims[i], part.dims[i])
    joined: Dim = (Concatenation(part.dims[dim] for part in parts),)
    dims = [joined if i == dim else parts[0].dims[i] for i in range(rank)]
    out = trace.assign(call.out, dims)
    start = 0
    for part in parts:
        trace.facts.cut(part, out, dim, start)
        start += size_of(part.dims[dim])


def _stack(trace: Recorder, call: Call) -> None:
    """The slices lie on the same axes; their index is fixed."""
    parts = [trace.value(tensor) for tensor in call["tensors"]]
    at = call["dim"] % call.out.dim()
    for part in parts[1:]:
        for a, b in zip(parts[0].dims, part.dims, strict=True):
            trace.unify(a, b)
    index = trace.fixed([len(parts)], "position")
    out = trace.assign(call.out, (*parts[0].dims[:at], *index, *parts[0].dims[at:]))
    for part in parts:
        trace.facts.move(part, [i + (i >= at) for i in range(len(part.dims))], out)


def _pad(trace: Recorder, call: Call) -> None:
    """Padding with a number adds indices that are alike; negative padding cuts."""
    x = trace.value(call["self"])
    for j, (before, after) in enumerate(zip(call["pad"][::2], call["pad"][1::2], strict=True)):
        if before < 0 or after < 0:
            raise Unsupported
        if not before and not after:
            continue
        i = len(x.dims) - 1 - j
        parts = [(AxisVariable(before),), x.dims[i], (AxisVariable(after),)]
        padded: Dim = (Concatenation(part for part in parts if size_of(part)),)
        whole = Value((*x.dims[:i], padded, *x.dims[i + 1 :]))
        trace.facts.cut(x, whole, i, before)
        x = whole
    if call["value"]:
        trace.facts.opaque(x)
    trace.values.set(call.out, Value(x.dims))
    trace.facts.same(x, trace.value(call.out))


def _pixel_shuffle(trace: Recorder, call: Call) -> None:
    """``(C r r, H, W)`` to ``(C, H r, W r)``."""
    x = trace.value(call["self"])
    factor = call["upscale_factor"]
    sizes = [size_of(x.dims[-3]) // factor**2, factor, factor]
    channels, rows, columns = regroup(x.dims[-3:-2], sizes, trace.reason)
    for dim in (*x.dims[-2:], rows, columns):
        trace.fix(dim, "position")
    out = trace.assign(call.out, (*x.dims[:-3], channels, x.dims[-2] + rows, x.dims[-1] + columns))
    lead = tuple(range(len(x.dims) - 3))
    spread = Value((*x.dims[:-3], channels, rows, columns, *x.dims[-2:]))
    shuffled = Value((*x.dims[:-3], channels, x.dims[-2], rows, x.dims[-1], columns))
    trace.facts.rearrange(x, spread)
    trace.facts.multiply(
        [Operand(spread, (*lead, "c", "r", "s", "h", "w"))],
        Operand(shuffled, (*lead, "c", "h", "r", "w", "s")),
    )
    trace.facts.rearrange(shuffled, out)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("slice", "slice_copy"), _slice),
    **dict.fromkeys(("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes"), _split),
    **dict.fromkeys(("select", "select_copy"), _select),
    "cat": _cat,
    "constant_pad_nd": _pad,
    "pixel_shuffle": _pixel_shuffle,
    "stack": _stack,
    "unbind": _unbind,
}
