"""Products of two or three tensors that are no matrix products: bilinear maps, cross and grouped products.

Dims: those of equal labels are the same. Mixing: contracted ones, and the choice of a group. Homogeneity:
linear in each operand; distances have degree 1.
"""

from collections.abc import Hashable, Iterable

from wsl.trace._axes import Dim
from wsl.trace._facts import Operand, Value, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule, Unsupported
from wsl.trace.rules._laws import without


def _tie(trace: Recorder, operands: Iterable[Operand]) -> dict[Hashable, Dim]:
    """Unify dims of equal labels; returns the dim of each label."""
    dims: dict[Hashable, Dim] = {}
    for value, labels in operands:
        for label, dim in zip(labels, value.dims, strict=True):
            dims[label] = trace.unify(dims.get(label, dim), dim)
    return dims


def _trilinear(trace: Recorder, call: Call) -> None:
    """``nn.Bilinear``: each operand lacks the dims that it is expanded along; ``sumdim`` are summed over."""
    rank = call["i1"].dim() + len(call["expand1"])
    operands = []
    for k in "123":
        lacking = {i % rank for i in call[f"expand{k}"]}
        value = trace.value(call[f"i{k}"])
        operands.append(Operand(value, tuple(i for i in range(rank) if i not in lacking)))
    dims = _tie(trace, operands)
    summed = {i % rank for i in call["sumdim"]}
    labels = tuple(i for i in range(rank) if i not in summed)
    out = trace.assign(call.out, [dims[label] for label in labels])
    trace.facts.multiply(operands, Operand(out, labels))
    trace.features += [dims[label] for label in summed]
    for label in labels:
        if [label in operand.labels for operand in operands] == [False, True, False]:
            trace.produced.append((dims[label], "h"))


def _cross(trace: Recorder, call: Call) -> None:
    """The cross product of vectors along one dim, which it fixes."""
    operands = [trace.value(call["self"]), trace.value(call["other"])]
    rank = call.out.dim()
    dim = call["dim"] % rank
    for value in operands:
        trace.fix(value.dims[dim])
    out = trace.assign(call.out, trace.broadcast(operands))
    labels = without(range(rank), (dim,))
    trace.facts.multiply([Operand(value, labels) for value in operands], Operand(out, labels))


def _grouped(trace: Recorder, call: Call) -> None:
    """Rows ``(T, K)``, in groups that ``offs`` ends, by a matrix of ``(E, K, N)`` for each group."""
    rows, matrices = trace.value(call["self"]), trace.value(call["mat2"])
    if call["offs"] is None or (len(rows.dims), len(matrices.dims)) != (2, 3) or call["bias"] is not None:
        raise Unsupported
    ends = trace.value(call["offs"])
    for dim in (rows.dims[0], matrices.dims[0], *ends.dims):
        trace.fix(dim)
    trace.facts.opaque(ends)
    shared = trace.unify(rows.dims[1], matrices.dims[1])
    out = trace.assign(call.out, (rows.dims[0], matrices.dims[2]))
    trace.facts.multiply(
        [Operand(rows, ("t", "k")), Operand(matrices, (None, "k", "n"))], Operand(out, ("t", "n"))
    )
    trace.features.append(shared)
    trace.produced.append((matrices.dims[2], "h"))


def _distances(trace: Recorder, call: Call) -> None:
    """``cdist`` of ``(..., P, M)`` and ``(..., R, M)``: norms of differences, along ``M``."""
    left, right = trace.value(call["x1"]), trace.value(call["x2"])
    lead = trace.broadcast([Value(left.dims[:-2]), Value(right.dims[:-2])])
    shared = trace.unify(left.dims[-1], right.dims[-1])
    rows, columns = left.dims[-2], right.dims[-2]
    batch = tuple(range(-len(lead), 0))
    difference = Operand(Value((*lead, rows, columns, shared)), (*batch, "p", "r", "m"))
    operands = [
        Operand(value, (*aligned(Value(value.dims[:-2])).labels, label, "m"))
        for value, label in ((left, "p"), (right, "r"))
    ]
    magnitudes = Operand(Value(difference.value.dims), difference.labels)
    out = Operand(trace.assign(call.out, (*lead, rows, columns)), (*batch, "p", "r"))
    trace.facts.add(operands, difference)
    trace.facts.apply(difference, magnitudes, 1, "even")
    trace.facts.apply(magnitudes, out, 0 if call["p"] == 0 else 1)


def _own_distances(trace: Recorder, call: Call) -> None:
    """``pdist`` of ``(N, M)``: norms of the differences of all pairs, in order."""
    x = trace.value(call["self"])
    trace.fix(x.dims[0])
    out = trace.assign(call.out, trace.fixed(call.out.shape))
    trace.facts.apply(Operand(x, (None, None)), Operand(out, (None,)), 0 if call["p"] == 0 else 1, "even")


RULES: dict[str, Rule] = {
    "_cdist_forward": _distances,
    "_pdist_forward": _own_distances,
    "_grouped_mm": _grouped,
    "_trilinear": _trilinear,
    "linalg_cross": _cross,
}
