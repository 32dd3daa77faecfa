"""Operators that depend on the order along a dimension, or that give it an order.

Dims: those of the input. Mixing: the dims that they run along. A scan or a shift fixes these. Sorting does
not: the values come in an order of their own, which is fixed, whatever the order before (unless ``topk`` may
leave them unsorted); indices into the old order fix it where they are read. Homogeneity: shifts and sums are
linear, sorted values of degree 1.
"""

from wsl.trace._facts import Operand
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule, Unsupported
from wsl.trace.rules._laws import Law, combine, without
from wsl.trace.rules.reduction import reduced_dims

_SHIFTS = ("flip", "roll")
_SCANS: dict[str, Law | None] = {
    "cumsum": None,
    "cumprod": Law(),
    "logcumsumexp": Law(),
    "cummax": Law(1),
    "cummin": Law(1),
}
_SORTED = ("sort", "topk")


def _scan(trace: Recorder, call: Call) -> None:
    x = trace.value(call.tensors[0])
    rank = len(x.dims)
    along = reduced_dims(call.get("dims", call.get("dim")), rank)
    for i in along:
        trace.fix(x.dims[i])
    labels = without(range(rank), along)
    law = _SCANS.get(call.name)
    for k, tensor in enumerate(call.outs):
        dims = x.dims
        if call.name in _SHIFTS:
            dims = tuple(trace.fixed([tensor.shape[i]])[0] if i in along else x.dims[i] for i in range(rank))
        out = Operand(trace.assign(tensor, dims), labels)
        if law is None:
            trace.facts.multiply([Operand(x, labels)], out)
        else:
            trace.facts.apply(Operand(x, labels), out, 0 if k else law.degree)


def _sorted(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    rank = len(x.dims)
    along = call["dim"] % max(rank, 1)
    labels = without(range(rank), (along,))
    if call.get("sorted") is False and rank:
        trace.fix(x.dims[along])
    for tensor in call.outs:
        new = trace.fixed([tensor.shape[along]]) if rank else ()
        out = trace.assign(tensor, (*x.dims[:along], *new, *x.dims[along + 1 :]))
        indices = tensor is call.outs[-1]
        trace.facts.apply(Operand(x, labels), Operand(out, labels), 0 if indices else 1)
        if indices:
            out.indexes = tuple((dim, trace.reason()) for dim in x.dims[along : along + 1])


def _searched(trace: Recorder, call: Call) -> None:
    """Positions of entries in a sorted sequence, which lies along the last dim."""
    sequence, *entries = map(trace.value, call.tensors)
    if call.name == "bucketize":
        sequence, entries = entries[-1] if entries else sequence, [sequence] if entries else []
    trace.fix(sequence.dims[-1])
    if not entries or call.get("sorter") is not None:
        raise Unsupported
    lead = len(sequence.dims) - 1
    for a, b in zip(sequence.dims[:lead], entries[0].dims[:lead], strict=True):
        trace.unify(a, b)
    labels = tuple(range(len(entries[0].dims)))
    out = Operand(trace.assign(call.out, entries[0].dims), labels)
    combine(trace, [Operand(entries[0], labels), Operand(sequence, (*labels[:lead], None))], out)


RULES: dict[str, Rule] = {
    **dict.fromkeys((*_SHIFTS, *_SCANS), _scan),
    **dict.fromkeys(_SORTED, _sorted),
    **dict.fromkeys(("bucketize", "searchsorted"), _searched),
}
