"""Diagonals and triangles of matrices.

Dims: a main diagonal ties rows and columns, any other fixes both; a triangle depends on the order, and
fixes both. Mixing: rows and columns of a diagonal. Homogeneity: linear.
"""

from wsl.trace._axes import size_of
from wsl.trace._facts import Operand, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule
from wsl.trace.rules._laws import without


def _diagonal(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    rank = len(x.dims)
    pair = (call["dim1"] % rank, call["dim2"] % rank)
    rows, columns = (x.dims[i] for i in pair)
    if call["offset"] == 0 and size_of(rows) == size_of(columns):
        along = trace.unify(rows, columns)
    else:
        trace.fix(rows)
        trace.fix(columns)
        (along,) = trace.fixed([call.out.shape[-1]])
    kept = [i for i in range(rank) if i not in pair]
    out = trace.assign(call.out, (*(x.dims[i] for i in kept), along), x.constancy)
    trace.facts.multiply([Operand(x, without(range(rank), pair))], Operand(out, (*kept, None)))


def _embed(trace: Recorder, call: Call) -> None:
    """``diag_embed``: zero outside a diagonal."""
    x = trace.value(call["self"])
    rank = call.out.dim()
    pair = (call["dim1"] % rank, call["dim2"] % rank)
    rows = columns = x.dims[-1]
    if call["offset"] != 0:
        trace.fix(x.dims[-1])
        rows, columns = trace.fixed([call.out.shape[i] for i in pair])
    kept = iter(x.dims[:-1])
    dims = [rows if i == pair[0] else columns if i == pair[1] else next(kept) for i in range(rank)]
    labels = without(range(rank), pair)
    source = (*(label for label in labels if label is not None), None)
    trace.facts.multiply([Operand(x, source)], Operand(trace.assign(call.out, dims), labels))


def _triangle(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    for dim in x.dims[-2:]:
        trace.fix(dim)
    trace.facts.multiply([aligned(x)], aligned(trace.assign(call.out, x.dims)))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("tril", "triu"), _triangle),
    "diag_embed": _embed,
    "diagonal": _diagonal,
}
