"""The same entries under other indices: views, permutations, expansion, repetition."""

import math
from collections.abc import Sequence
from itertools import accumulate

from wsl.trace._axes import AxisVariable, Dim, fresh, is_fixed, size_of
from wsl.trace._facts import Value, derived
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule, Unsupported
from wsl.trace._stacks import Stack
from wsl.trace._unify import cut, regroup
from wsl.trace.rules.parts import concatenated

Run = tuple[range, range]


def _runs(old: Sequence[int], new: Sequence[int]) -> list[Run]:
    """The smallest runs of dims of two shapes that have equal products."""
    if 0 in old:
        raise Unsupported
    runs = []
    i = j = 0
    while i < len(old) or j < len(new):
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
        runs.append((range(start_i, i), range(start_j, j)))
    return runs


def _viewed(trace: Recorder, x: Value, new: Sequence[int]) -> Value:
    dims: list[Dim] = []
    for here, there in _runs([size_of(dim) for dim in x.dims], new):
        dims += regroup([x.dims[i] for i in here], [new[j] for j in there], trace.reason)
    out = derived(x, dims)
    trace.facts.rearrange(x, out)
    return out


def _view(trace: Recorder, call: Call) -> None:
    old, new = tuple(call["self"].shape), tuple(call.out.shape)
    if call["self"].dtype != call.out.dtype:
        raise Unsupported
    if 0 in old:  # there are no entries to follow
        trace.assign(call.out, trace.fixed(new))
        return None
    runs = _runs(old, new)
    stack = trace.values.get_stack(call["self"])
    if stack is not None and _view_of_stack(trace, call, stack, runs):
        return None
    x = trace.value(call["self"])
    if tuple(map(size_of, x.dims)) != old:
        raise Unsupported
    split = []
    for here, there in runs:
        before, after = [i for i in here if old[i] > 1], [j for j in there if new[j] > 1]
        if len(before) != 1 or len(after) < 2 or is_fixed(x.dims[before[0]]):
            continue
        for at in after[:-1]:
            if trace.site(at) in trace.sites.stacked and _view_as_stack(trace, call, x, before[0], at, after):
                return None
        split.append(after)
    out = trace.values.set(call.out, _viewed(trace, x, new))
    for after in split:
        trace.sites.split([out.dims[j] for j in after], [trace.site(j) for j in after])
    return None


def _view_of_stack(trace: Recorder, call: Call, stack: Stack, runs: Sequence[Run]) -> bool:
    """A view that leaves the slices apart, or flattens them one after another; tells whether it does."""
    old, new, count = call["self"].shape, call.out.shape, len(stack.slices)
    here, there = next((run for run in runs if stack.dim in run[0]), (range(0), range(0)))
    before, after = [i for i in here if old[i] > 1], [j for j in there if new[j] > 1]
    if count == 1 or before[:1] != [stack.dim] or len(after) != 1:
        return False
    at = after[0]
    if before == [stack.dim]:
        moved = [_viewed(trace, value, (*new[:at], *new[at + 1 :])) for value in stack.slices]
        trace.values.set_stack(call.out, Stack(at, moved, stack.site))
    else:
        shape = (*new[:at], new[at] // count, *new[at + 1 :])
        parts = [_viewed(trace, value, shape) for value in stack.slices]
        trace.values.set(call.out, concatenated(trace, parts, at))
    return True


def _view_as_stack(trace: Recorder, call: Call, x: Value, dim: int, at: int, parts: Sequence[int]) -> bool:
    """Make the part ``at`` of dim ``dim`` the dim of a stack; tells whether that is possible.

    Args:
        parts: the dims that the view makes of dim ``dim``, of which ``at`` is not the last.
    """
    if x.is_use or x.constancy == "zero":
        return False  # a fill may yet be written to
    new = call.out.shape
    if outer := [new[j] for j in parts if j < at]:
        sizes = [*map(size_of, x.dims)]
        count = math.prod(outer)
        x = _viewed(trace, x, (*sizes[:dim], count, sizes[dim] // count, *sizes[dim + 1 :]))
        dim += 1
    pieces = cut(x.dims[dim], [size_of(x.dims[dim]) // new[at]] * new[at])
    if pieces is None:
        return False
    slices = []
    for piece, start in zip(pieces, accumulate(map(size_of, pieces), initial=0), strict=False):
        part = derived(x, (*x.dims[:dim], piece, *x.dims[dim + 1 :]))
        trace.facts.cut(part, x, dim, start)
        slices.append(_viewed(trace, part, (*new[:at], *new[at + 1 :])))
    trace.values.set_stack(call.out, Stack(at, slices, trace.site(at)))
    return True


def _placed(trace: Recorder, x: Value, sources: Sequence[int | None], shape: Sequence[int]) -> Value:
    out = derived(
        x,
        [
            x.dims[source] if source is not None and size_of(x.dims[source]) == size else fresh([size])[0]
            for source, size in zip(sources, shape, strict=True)
        ],
    )
    trace.facts.move(x, [sources.index(i) if i in sources else None for i in range(len(x.dims))], out)
    return out


def _place(trace: Recorder, call: Call, sources: Sequence[int | None]) -> None:
    """The output's dims are those of the tensor at ``sources``, or new ones where that is ``None``.

    Indices of new dims, and of dims that grow from a size of 1, are alike: axes that may be permuted freely
    until something is tied to them.
    """
    shape = call.out.shape
    stack = trace.values.get_stack(call["self"])
    at = None if stack is None else sources.index(stack.dim) if stack.dim in sources else None
    if stack is None or at is None or shape[at] != len(stack.slices):
        trace.values.set(call.out, _placed(trace, trace.value(call["self"]), sources, shape))
        return
    inner = [
        None if source is None else source - (source > stack.dim)
        for j, source in enumerate(sources)
        if j != at
    ]
    moved = [_placed(trace, value, inner, (*shape[:at], *shape[at + 1 :])) for value in stack.slices]
    trace.values.set_stack(call.out, Stack(at, moved, stack.site))


def _permute(trace: Recorder, call: Call) -> None:
    rank = call.out.dim()
    _place(trace, call, [i % rank for i in call["dims"]])


def _transpose(trace: Recorder, call: Call) -> None:
    rank = call.out.dim()
    order = list(range(rank))
    if rank:
        i, j = (0, rank - 1) if call.name in ("t", "t_copy") else (call["dim0"] % rank, call["dim1"] % rank)
        order[i], order[j] = order[j], order[i]
    _place(trace, call, order)


def _unsqueeze(trace: Recorder, call: Call) -> None:
    at = call["dim"] % call.out.dim()
    order: list[int | None] = list(range(call.out.dim() - 1))
    _place(trace, call, [*order[:at], None, *order[at:]])


def _squeeze(trace: Recorder, call: Call) -> None:
    shape = trace.values.shape(call["self"])
    rank = len(shape)
    argument = call.get("dim")
    listed = (
        range(rank) if argument is None else argument if isinstance(argument, (list, tuple)) else [argument]
    )
    lost = {i % rank for i in listed} if rank else set()
    _place(trace, call, [i for i in range(rank) if i not in lost or shape[i] != 1])


def _expand(trace: Recorder, call: Call) -> None:
    rank = call["self"].dim()
    _place(trace, call, [*[None] * (call.out.dim() - rank), *range(rank)])


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
    out = trace.values.set(call.out, derived(x, [outer + inner for outer, inner in pairs]))
    trace.facts.rearrange(spread, out)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "_reshape_alias", "view_copy"), _view),
    **dict.fromkeys(("transpose", "t", "transpose_copy", "t_copy"), _transpose),
    **dict.fromkeys(("permute", "permute_copy"), _permute),
    **dict.fromkeys(("unsqueeze", "unsqueeze_copy"), _unsqueeze),
    **dict.fromkeys(("squeeze", "squeeze_copy"), _squeeze),
    **dict.fromkeys(("expand", "expand_copy"), _expand),
    "repeat": _repeat,
}
