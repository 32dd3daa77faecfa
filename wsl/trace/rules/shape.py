"""Moving entries without changing them: views, permutations, slices, concatenation, padding."""

from collections.abc import Iterable, Sequence

from torch import Tensor

from wsl.trace._axes import AxisVariable, Concatenation, Dim, fresh, is_fixed, size_of
from wsl.trace._facts import Operand, Value
from wsl.trace._recorder import Call, Recorder, Rule, Unsupported


def _derive(trace: Recorder, source: Value, tensor: Tensor, dims: Iterable[Dim]) -> Value:
    """The value of a view: still constant if its source is, and with axes of its own if its source is a fill."""
    out = trace.assign(tensor, dims, source.constancy)
    out.weight = source.weight
    return out


def _view(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    if tuple(call["self"].shape) != tuple(map(size_of, x.dims)) or call["self"].dtype != call.out.dtype:
        raise Unsupported
    old, new = call["self"].shape, call.out.shape
    if 0 in old:
        raise Unsupported
    dims: list[Dim] = []
    i = j = 0
    while i < len(old) or j < len(new):  # the smallest runs of dims with equal products
        start_i, start_j = i, j
        left = old[i] if i < len(old) else 1
        right = new[j] if j < len(new) else 1
        i, j = min(i + 1, len(old)), min(j + 1, len(new))
        while left != right:
            if left < right:
                left *= old[i]
                i += 1
            else:
                right *= new[j]
                j += 1
        dims += trace.regroup(x.dims[start_i:i], new[start_j:j])
    trace.facts.rearrange(x, _derive(trace, x, call.out, dims))


def _reorder(trace: Recorder, call: Call, order: Sequence[int]) -> None:
    x = trace.value(call["self"])
    out = _derive(trace, x, call.out, [x.dims[i] for i in order])
    trace.facts.multiply([Operand(x, tuple(range(len(x.dims))))], Operand(out, tuple(order)))


def _permute(trace: Recorder, call: Call) -> None:
    rank = call["self"].dim()
    _reorder(trace, call, [i % rank for i in call["dims"]])


def _transpose(trace: Recorder, call: Call) -> None:
    rank = call.out.dim()
    order = list(range(rank))
    if rank:
        i, j = (0, rank - 1) if call.name == "t" else (call["dim0"] % rank, call["dim1"] % rank)
        order[i], order[j] = order[j], order[i]
    _reorder(trace, call, order)


def _unsqueeze(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    at = call["dim"] % call.out.dim()
    out = _derive(trace, x, call.out, (*x.dims[:at], (), *x.dims[at:]))
    trace.facts.move(x, [i + (i >= at) for i in range(len(x.dims))], out)


def _squeeze(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    rank = len(x.dims)
    argument = call.get("dim")
    listed = (
        range(rank) if argument is None else argument if isinstance(argument, (list, tuple)) else [argument]
    )
    lost = {i % rank for i in listed} if rank else set()
    kept = [i for i in range(rank) if i not in lost or size_of(x.dims[i]) != 1]
    out = _derive(trace, x, call.out, [x.dims[i] for i in kept])
    trace.facts.move(x, [kept.index(i) if i in kept else None for i in range(rank)], out)


def _expand(trace: Recorder, call: Call) -> None:
    """New indices are alike: axes that may be permuted freely until something is tied to them."""
    x = trace.value(call["self"])
    lead = call.out.dim() - len(x.dims)
    dims = list(fresh(call.out.shape))
    for i, dim in enumerate(x.dims):
        if size_of(dim) == call.out.shape[lead + i]:
            dims[lead + i] = dim
    out = _derive(trace, x, call.out, dims)
    trace.facts.move(x, [lead + i for i in range(len(x.dims))], out)


def _repeat(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    counts = list(call["repeats"])
    lead = len(counts) - len(x.dims)
    padded: list[Dim] = [()] * lead + list(x.dims)
    pairs = [
        ((AxisVariable(count),) if count > 1 else (), dim) for count, dim in zip(counts, padded, strict=True)
    ]
    spread = Value(tuple(dim for pair in pairs for dim in pair))
    trace.facts.move(x, [2 * (lead + i) + 1 for i in range(len(x.dims))], spread)
    if 0 in counts:
        raise Unsupported
    out = _derive(trace, x, call.out, [outer + inner for outer, inner in pairs])
    trace.facts.rearrange(spread, out)


def _pieces(trace: Recorder, x: Value, dim: int, sizes: Sequence[int]) -> list[Dim]:
    """Cut one dim of ``x``, leaving out empty pieces."""
    pieces = iter(trace.cut(x.dims[dim], [size for size in sizes if size]))
    return [next(pieces) if size else () for size in sizes]


def _range(trace: Recorder, x: Value, dim: int, start: int, tensor: Tensor, piece: Dim) -> None:
    out = _derive(trace, x, tensor, (*x.dims[:dim], piece, *x.dims[dim + 1 :]))
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
        out = _derive(trace, x, call.out, (*x.dims[:dim], *trace.fixed([length]), *x.dims[dim + 1 :]))
        labels = tuple(None if i == dim else i for i in range(len(x.dims)))
        return trace.facts.multiply([Operand(x, labels)], Operand(out, labels))
    piece = _pieces(trace, x, dim, [start, length, size - start - length])[1]
    return _range(trace, x, dim, start, call.out, piece)


def _split(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    dim = call["dim"] % len(x.dims)
    sizes = [tensor.shape[dim] for tensor in call.outs]
    start = 0
    for tensor, size, piece in zip(call.outs, sizes, _pieces(trace, x, dim, sizes), strict=True):
        if not size:
            raise Unsupported
        _range(trace, x, dim, start, tensor, piece)
        start += size


def _take(trace: Recorder, x: Value, dim: int, index: int, tensor: Tensor) -> None:
    """One index of a dim: it is set apart from the others, which stay free."""
    size = size_of(x.dims[dim])
    if not is_fixed(x.dims[dim]):
        piece = _pieces(trace, x, dim, [index, 1, size - index - 1])[1]
        trace.fix(piece, "position")
    out = _derive(trace, x, tensor, x.dims[:dim] + x.dims[dim + 1 :])
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
    channels, rows, columns = trace.regroup(x.dims[-3:-2], [size_of(x.dims[-3]) // factor**2, factor, factor])
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
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "_reshape_alias", "view_copy"), _view),
    **dict.fromkeys(("transpose", "t", "swapaxes", "transpose_copy", "t_copy"), _transpose),
    **dict.fromkeys(("permute", "permute_copy"), _permute),
    **dict.fromkeys(("unsqueeze", "unsqueeze_copy"), _unsqueeze),
    **dict.fromkeys(("squeeze", "squeeze_copy"), _squeeze),
    **dict.fromkeys(("expand", "expand_copy"), _expand),
    **dict.fromkeys(("slice", "slice_copy"), _slice),
    **dict.fromkeys(("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes"), _split),
    **dict.fromkeys(("select", "select_copy"), _select),
    "cat": _cat,
    "constant_pad_nd": _pad,
    "pixel_shuffle": _pixel_shuffle,
    "repeat": _repeat,
    "stack": _stack,
    "unbind": _unbind,
}
