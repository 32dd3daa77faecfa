"""Reading at indices: ``embedding``, ``index``, ``index_select``, ``gather``, and what fixes everything.

Dims: the indexed ones are fixed, as the entries of the indices name their elements; the indices' own dims
take their place, and the others stay free. Mixing: the indexed dims. Homogeneity: linear in what is read;
the entries of indices may not be scaled.
"""

from wsl.trace._facts import Operand, Value
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule, Unsupported
from wsl.trace.rules._indices import Positions, align_along
from wsl.trace.rules._laws import without

# What they return depends on the order along every dim.
_FIXING = (
    "nonzero", "masked_select", "masked_scatter", "repeat_interleave", "_unique2", "unique_dim",
    "unique_consecutive", "bincount", "histc", "put",
)  # fmt: skip


def read(trace: Recorder, source: Operand, out: Operand, *indices: Value) -> None:
    """Record that ``out`` holds entries of ``source``, found at ``indices``."""
    trace.facts.opaque(*indices)
    trace.facts.multiply([source], out)


def _embedding(trace: Recorder, call: Call) -> None:
    weight, indices = trace.value(call["weight"]), trace.value(call["indices"])
    trace.fix(weight.dims[0])
    out = trace.assign(call.out, (*indices.dims, weight.dims[1]))
    trace.produced.append((weight.dims[1], "h"))
    labels = (*range(len(indices.dims)), "d")
    read(trace, Operand(weight, (None, "d")), Operand(out, labels), indices)


def _embedding_bag(trace: Recorder, call: Call) -> None:
    """Sums, means or maxima of bags of rows; sums may be weighted."""
    weight, indices, offsets = (trace.value(call[name]) for name in ("weight", "indices", "offsets"))
    for dim in (weight.dims[0], *indices.dims, *offsets.dims):
        trace.fix(dim)
    out, *rest = call.outs
    bags = Operand(trace.assign(out, (*trace.fixed(out.shape[:1]), weight.dims[1])), (None, "d"))
    trace.facts.opaque(indices, offsets)
    if call["mode"] == 2:
        trace.facts.apply(Operand(weight, (None, "d")), bags, degree=1)
    else:
        factors = [] if call["per_sample_weights"] is None else [trace.value(call["per_sample_weights"])]
        for factor in factors:
            trace.fix(factor.dims[0])
        operands = [Operand(weight, (None, "d")), *(Operand(factor, (None,)) for factor in factors)]
        trace.facts.multiply(operands, bags)
    for tensor in rest:
        largest = tensor.dim() == 2
        value = trace.assign(tensor, (*trace.fixed(tensor.shape[:1]), *(weight.dims[1:] if largest else ())))
        trace.facts.opaque(value)
        if largest:
            trace.facts.apply(Operand(weight, (None, "d")), Operand(value, (None, "d")), degree=0)
    trace.produced.append((weight.dims[1], "h"))


def _index(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    at = Positions(trace, x, call["indices"])
    found = [at.dim(x, label) for label in at.layout]
    dims = [
        trace.fixed([size])[0] if dim is None else dim
        for dim, size in zip(found, call.out.shape, strict=True)
    ]
    source = Operand(x, without(range(len(x.dims)), at.taken))
    read(trace, source, Operand(trace.assign(call.out, dims), tuple(at.layout)), *at.values)


def _index_select(trace: Recorder, call: Call) -> None:
    x, index = trace.value(call["self"]), trace.value(call["index"])
    if not x.dims:
        raise Unsupported
    dim = call["dim"] % len(x.dims)
    trace.fix(x.dims[dim])
    out = trace.assign(call.out, (*x.dims[:dim], index.dims[0] if index.dims else (), *x.dims[dim + 1 :]))
    labels = tuple(range(len(x.dims)))
    read(trace, Operand(x, without(labels, (dim,))), Operand(out, labels), index)


def _gather(trace: Recorder, call: Call) -> None:
    x, index = trace.value(call["self"]), trace.value(call["index"])
    if not x.dims or not index.dims:
        raise Unsupported
    dim = call["dim"] % len(x.dims)
    labels = align_along(trace, x, [index], dim)
    read(trace, Operand(x, labels), Operand(trace.assign(call.out, index.dims), labels), index)


def _renormed(trace: Recorder, call: Call) -> None:
    """``embedding`` with ``max_norm`` shortens the rows that it will read."""
    weight, indices = trace.value(call["self"]), trace.value(call["indices"])
    for dim in (weight.dims[0], *indices.dims):
        trace.fix(dim)
    trace.facts.opaque(indices)
    out = trace.assign(call.out, weight.dims)
    trace.facts.apply(Operand(weight, ("v", None)), Operand(out, ("v", None)), parity="odd")


def _fix_all(trace: Recorder, call: Call) -> None:
    values = [trace.value(tensor) for tensor in call.tensors]
    values += [trace.assign(tensor, trace.fixed(tensor.shape)) for tensor in call.outs]
    for value in values:
        for dim in value.dims:
            trace.fix(dim)
    trace.facts.opaque(*values)


RULES: dict[str, Rule] = {
    **dict.fromkeys(_FIXING, _fix_all),
    "embedding": _embedding,
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _embedding_bag),
    "embedding_renorm": _renormed,
    "gather": _gather,
    "index": _index,
    "index_select": _index_select,
}
