"""The same entries under other indices: views, permutations, expansion, repetition."""

from collections.abc import Iterable, Sequence

from torch import Tensor

from wsl.trace._axes import AxisVariable, Dim, fresh, size_of
from wsl.trace._facts import Operand, Value
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule, Unsupported
from wsl.trace._unify import regroup


def derive(trace: Recorder, source: Value, tensor: Tensor, dims: Iterable[Dim]) -> Value:
    """The value of a view: constant, a weight or a fill if its source is."""
    out = trace.assign(tensor, dims, source.constancy)
    out.uses = [] if source.is_use else None
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
        dims += regroup(x.dims[start_i:i], new[start_j:j], trace.reason)
    trace.facts.rearrange(x, derive(trace, x, call.out, dims))


def _reorder(trace: Recorder, call: Call, order: Sequence[int]) -> None:
    x = trace.value(call["self"])
    out = derive(trace, x, call.out, [x.dims[i] for i in order])
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
    out = derive(trace, x, call.out, (*x.dims[:at], (), *x.dims[at:]))
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
    out = derive(trace, x, call.out, [x.dims[i] for i in kept])
    trace.facts.move(x, [kept.index(i) if i in kept else None for i in range(rank)], out)


def _expand(trace: Recorder, call: Call) -> None:
    """New indices are alike: axes that may be permuted freely until something is tied to them."""
    x = trace.value(call["self"])
    lead = call.out.dim() - len(x.dims)
    dims = list(fresh(call.out.shape))
    for i, dim in enumerate(x.dims):
        if size_of(dim) == call.out.shape[lead + i]:
            dims[lead + i] = dim
    out = derive(trace, x, call.out, dims)
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
    out = derive(trace, x, call.out, [outer + inner for outer, inner in pairs])
    trace.facts.rearrange(spread, out)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "_reshape_alias", "view_copy"), _view),
    **dict.fromkeys(("transpose", "t", "swapaxes", "transpose_copy", "t_copy"), _transpose),
    **dict.fromkeys(("permute", "permute_copy"), _permute),
    **dict.fromkeys(("unsqueeze", "unsqueeze_copy"), _unsqueeze),
    **dict.fromkeys(("squeeze", "squeeze_copy"), _squeeze),
    **dict.fromkeys(("expand", "expand_copy"), _expand),
    "repeat": _repeat,
}
