"""Taking tensors apart and putting them together: slices, concatenation, padding."""

from collections.abc import Callable, Sequence
from itertools import accumulate

from torch import Tensor

from wsl.trace._axes import AxisVariable, Concatenation, Dim, is_fixed, size_of
from wsl.trace._facts import Operand, Value, derived
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule, Unsupported
from wsl.trace._stacks import Stack
from wsl.trace._unify import cut, regroup


def pieces_of(trace: Recorder, dim: Dim, sizes: Sequence[int]) -> list[Dim]:
    """Cut ``dim``; fixes it if the pieces cannot be expressed. Pieces of size 0 are ``()``."""
    pieces = cut(dim, [size for size in sizes if size])
    if pieces is None:
        trace.fix(dim)
        return list(trace.fixed(sizes))
    rest = iter(pieces)
    return [next(rest) if size else () for size in sizes]


def _part(trace: Recorder, x: Value, dim: int, start: int, piece: Dim) -> Value:
    out = derived(x, (*x.dims[:dim], piece, *x.dims[dim + 1 :]))
    trace.facts.cut(out, x, dim, start)
    return out


def _range(trace: Recorder, x: Value, dim: int, start: int, length: int) -> Value:
    """Consecutive indices of a dim."""
    sizes = [start, length, size_of(x.dims[dim]) - start - length]
    return _part(trace, x, dim, start, pieces_of(trace, x.dims[dim], sizes)[1])


def _ranges(trace: Recorder, x: Value, dim: int, sizes: Sequence[int]) -> list[Value]:
    """All indices of a dim, in ranges of these sizes."""
    starts = accumulate(sizes, initial=0)
    pieces = pieces_of(trace, x.dims[dim], sizes)
    return [_part(trace, x, dim, start, piece) for start, piece in zip(starts, pieces, strict=False)]


def _every(trace: Recorder, x: Value, dim: int, length: int) -> Value:
    """Every so many indices of a dim: it is fixed."""
    trace.fix(x.dims[dim])
    out = derived(x, (*x.dims[:dim], *trace.fixed([length]), *x.dims[dim + 1 :]))
    labels = tuple(None if i == dim else i for i in range(len(x.dims)))
    trace.facts.multiply([Operand(x, labels)], Operand(out, labels))
    return out


def _empty(trace: Recorder, tensor: Tensor) -> None:
    """A part without entries: it has dims of its own, which a concatenation leaves out."""
    trace.assign(tensor, trace.fixed(tensor.shape))


def _slice(trace: Recorder, call: Call) -> None:
    tensor, length = call["self"], call.out.shape[call["dim"]]
    dim = call["dim"] % tensor.dim()
    size, step = tensor.shape[dim], call.get("step") or 1
    start = call["start"] or 0
    start = min(max(start + size if start < 0 else start, 0), size)
    if length == 0:
        return _empty(trace, call.out)
    stack = trace.values.get_stack(tensor)
    if stack is not None and stack.dim == dim:
        kept = stack.slices[start : start + (length - 1) * step + 1 : step]
        return trace.values.set_stack(call.out, Stack(dim, kept, stack.site))
    if stack is None and length < size:
        trace.sites.index(trace.value(tensor).dims[dim])

    def move(x: Value, dim: int) -> Value:
        if length < size and step != 1:
            return _every(trace, x, dim, length)
        return _range(trace, x, dim, start, length)

    return _each(trace, tensor, call.out, dim, move)


def _split(trace: Recorder, call: Call) -> None:
    dim = call["dim"] % call["self"].dim()
    outs = [tensor for tensor in call.outs if tensor.shape[dim]]
    sizes = [tensor.shape[dim] for tensor in outs]
    for tensor in call.outs:
        if not tensor.shape[dim]:
            _empty(trace, tensor)
    stack = trace.values.get_stack(call["self"])
    if stack is None:
        x = trace.value(call["self"])
        if len(sizes) > 1:
            trace.sites.index(x.dims[dim])
        for tensor, part in zip(outs, _ranges(trace, x, dim, sizes), strict=True):
            trace.values.set(tensor, part)
    elif dim == stack.dim:
        for tensor, start in zip(outs, accumulate(sizes, initial=0), strict=False):
            kept = stack.slices[start : start + tensor.shape[dim]]
            trace.values.set_stack(tensor, Stack(dim, kept, stack.site))
    else:
        parts = [_ranges(trace, x, dim - (dim > stack.dim), sizes) for x in stack.slices]
        for tensor, slices in zip(outs, zip(*parts, strict=True), strict=True):
            trace.values.set_stack(tensor, Stack(stack.dim, slices, stack.site))


def _each(
    trace: Recorder, tensor: Tensor, out: Tensor, dim: int, move: Callable[[Value, int], Value], lost: int = 0
) -> None:
    """Give ``out`` what ``move`` makes of ``tensor`` along ``dim``; of each slice, if it is a stack.

    Args:
        lost: 1 if ``move`` drops the dim.
    """
    stack = trace.values.get_stack(tensor)
    if stack is None:
        trace.values.set(out, move(trace.value(tensor), dim))
        return
    moved = [move(x, dim - (dim > stack.dim)) for x in stack.slices]
    trace.values.set_stack(out, Stack(stack.dim - lost * (stack.dim > dim), moved, stack.site))


def _take(trace: Recorder, tensor: Tensor, dim: int, index: int, out: Tensor) -> None:
    """One index of a dim: it is set apart from the others, which stay free."""
    stack = trace.values.get_stack(tensor)
    if stack is not None and stack.dim == dim:
        trace.values.set(out, stack.slices[index])
        return
    size = tensor.shape[dim]

    def move(x: Value, dim: int) -> Value:
        if size > 1 and not is_fixed(x.dims[dim]):
            if trace.sites.in_the_middle(x.dims[dim]):
                trace.fix(x.dims[dim])
            else:
                x = _range(trace, x, dim, index, 1)
        taken = derived(x, x.dims[:dim] + x.dims[dim + 1 :])
        # The dims that stay keep their labels; the one that is lost has none, so it may not be scaled.
        labels = [i - (i > dim) if i != dim else None for i in range(len(x.dims))]
        trace.facts.move(x, labels, taken)
        return taken

    if stack is None:
        trace.sites.index(trace.value(tensor).dims[dim])
    _each(trace, tensor, out, dim, move, lost=1)


def _select(trace: Recorder, call: Call) -> None:
    dim = call["dim"] % call["self"].dim()
    _take(trace, call["self"], dim, call["index"] % call["self"].shape[dim], call.out)


def _unbind(trace: Recorder, call: Call) -> None:
    for index, tensor in enumerate(call.outs):
        _take(trace, call["self"], call["dim"] % call["self"].dim(), index, tensor)


def concatenated(trace: Recorder, parts: Sequence[Value], dim: int) -> Value:
    """The concatenation of values along a dim."""
    for part in parts[1:]:
        for i, (a, b) in enumerate(zip(parts[0].dims, part.dims, strict=True)):
            if i != dim:
                trace.unify(a, b)
    joined: Dim = (Concatenation(part.dims[dim] for part in parts),)
    whole = Value((*parts[0].dims[:dim], joined, *parts[0].dims[dim + 1 :]))
    start = 0
    for part in parts:
        trace.facts.cut(part, whole, dim, start)
        start += size_of(part.dims[dim])
    return whole


def _cat(trace: Recorder, call: Call) -> None:
    rank = call.out.dim()
    dim = call["dim"] % rank
    # Empty tensors of rank one are left out, as torch does.
    parts = [trace.value(tensor) for tensor in call["tensors"] if tensor.dim() == rank and tensor.shape[dim]]
    trace.values.set(call.out, concatenated(trace, parts, dim))


def _stack(trace: Recorder, call: Call) -> None:
    parts = [trace.value(tensor) for tensor in call["tensors"]]
    slices = [derived(part, part.dims) for part in parts]
    for part, copy in zip(parts, slices, strict=True):
        copy.uses = None
        trace.facts.same(part, copy)
    trace.values.set_stack(call.out, Stack(call["dim"] % call.out.dim(), slices))
    if any(part.is_use or part.constancy == "zero" for part in parts):
        trace.value(call.out)  # what may yet be written to is one value


def _longer(trace: Recorder, x: Value, dim: int, size: int, number: float | None) -> Value:
    """Padding of positions, which are fixed: the new ones have no parts that anything could be tied to."""
    out = Value((*x.dims[:dim], *trace.fixed([size], "position"), *x.dims[dim + 1 :]))
    labels = tuple(None if i == dim else i for i in range(len(x.dims)))
    trace.facts.multiply([Operand(x, labels)], Operand(out, labels))
    if number:
        trace.facts.opaque(out)
    return out


def _pad(trace: Recorder, call: Call) -> None:
    """Padding with a number adds indices that are alike; negative padding cuts."""
    x = trace.value(call["self"])
    for j, (before, after) in enumerate(zip(call["pad"][::2], call["pad"][1::2], strict=True)):
        if before < 0 or after < 0:
            raise Unsupported
        if not before and not after:
            continue
        i = len(x.dims) - 1 - j
        if is_fixed(x.dims[i]):
            x = _longer(trace, x, i, before + size_of(x.dims[i]) + after, call["value"])
            continue
        parts = [(AxisVariable(before),), x.dims[i], (AxisVariable(after),)]
        padded: Dim = (Concatenation(part for part in parts if size_of(part)),)
        whole = Value((*x.dims[:i], padded, *x.dims[i + 1 :]))
        trace.facts.cut(x, whole, i, before)
        for part, start in ((parts[0], 0), (parts[2], before + size_of(x.dims[i]))):
            if call["value"] and size_of(part):
                number = Value((*x.dims[:i], part, *x.dims[i + 1 :]), "constant")
                trace.facts.cut(number, whole, i, start)
        x = whole
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
