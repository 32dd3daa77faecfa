"""Batch, layer, group (and through them instance) normalisation, and softmax.

Dims: those of the input; affine parameters and running statistics lie along the channels. Mixing: the dims
that moments are taken over, or that softmax runs along. Homogeneity: none, because of the small constant
under the root; odd in the slices over the mixed dims. Softmax is neither.
"""

from collections.abc import Sequence

from torch import Tensor

from wsl.trace._axes import AxisVariable, Dim
from wsl.trace._facts import Operand, Value, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule
from wsl.trace.rules._laws import Law


def _affine(trace: Recorder, x: Value, weight: Tensor | None, bias: Tensor | None, first: int) -> Value:
    """``x * weight + bias``, whose dims are those of ``x`` from ``first`` on."""
    labels = aligned(x).labels
    for tensor, combine in ((weight, trace.facts.multiply), (bias, trace.facts.add)):
        if tensor is None:
            continue
        value = trace.value(tensor)
        for i, dim in enumerate(value.dims):
            trace.unify(x.dims[first + i], dim)
        out = Value(x.dims)
        combine([aligned(x), Operand(value, labels[first : first + len(value.dims)])], aligned(out))
        x = out
    return x


def _standardized(trace: Recorder, x: Value, over: tuple[int, ...]) -> Value:
    """``(x - mean) / std`` with moments over the dims ``over``: odd in slices over these."""
    out = Value(x.dims)
    labels = tuple(None if i in over else i for i in range(len(x.dims)))
    trace.facts.apply(Operand(x, labels), Operand(out, labels), parity="odd")
    return out


def _moments(trace: Recorder, x: Operand, tensors: Sequence[Tensor], dims: tuple[Dim, ...]) -> None:
    """Means, which are odd, and inverse deviations, which are even, of slices over dims without label.

    They ask for no more than the normalised values do, as they are seldom read.
    """
    labels = tuple(label for label in x.labels if label is not None)
    for tensor, law in zip(tensors, (Law(1, "odd"), Law(None, "even")), strict=False):
        out = Operand(trace.assign(tensor, dims), (*labels, *(None,) * (len(dims) - len(labels))))
        trace.facts.apply(x, out, law.degree, law.parity)


def _layer_norm(trace: Recorder, call: Call) -> None:
    x = trace.value(call["input"])
    first = len(x.dims) - len(call["normalized_shape"])
    if first == len(x.dims) - 1:  # with several dims, all but channels are positions
        trace.features.append(x.dims[first])
    y = _standardized(trace, x, tuple(range(first, len(x.dims))))
    out, *moments = call.outs
    trace.values.set(out, _affine(trace, y, call["weight"], call["bias"], first))
    labels = (*range(first), *(None,) * (len(x.dims) - first))
    _moments(trace, Operand(x, labels), moments, x.dims[:first] + ((),) * (len(x.dims) - first))


def _group_norm(trace: Recorder, call: Call) -> None:
    """Channels are ``(g i)``; the groups are permuted, and alike in every group its members."""
    x = trace.value(call["input"])
    count, channels = call["group"], call["C"]
    g: Dim = (AxisVariable(count),) if count > 1 else ()
    i: Dim = (AxisVariable(channels // count),) if channels > count else ()
    trace.unify(x.dims[1], g + i)
    trace.features.append(x.dims[1])
    grouped = Value((x.dims[0], g, i, *x.dims[2:]))
    trace.facts.rearrange(x, grouped)
    y = Value(x.dims)
    trace.facts.rearrange(_standardized(trace, grouped, tuple(range(2, len(grouped.dims)))), y)
    out, *moments = call.outs
    trace.values.set(out, _affine(trace, y, call["weight"], call["bias"], 1))
    labels = ("n", "g", *(None,) * (len(grouped.dims) - 2))
    _moments(trace, Operand(grouped, labels), moments, (x.dims[0], g))


def _batch_norm(trace: Recorder, call: Call) -> None:
    x = trace.value(call["input"])
    trace.features.append(x.dims[1])
    training = call.get("training", False)
    mean, variance = call.get("running_mean"), call.get("running_var")
    for tensor in (mean, variance):
        if tensor is not None:
            trace.unify(x.dims[1], trace.value(tensor).dims[0])
    if training or mean is None:
        # Statistics of the batch: running ones lie along the channels, but nothing reads them.
        trace.facts.opaque(*(trace.value(tensor) for tensor in (mean, variance) if tensor is not None))
        y = _standardized(trace, x, tuple(i for i in range(len(x.dims)) if i != 1))
    else:
        y = _divided(trace, _affine(trace, x, None, mean, 1), trace.value(variance))
    out, *moments = call.outs
    trace.values.set(out, _affine(trace, y, call["weight"], call["bias"], 1))
    if training or mean is None:
        return _moments(trace, Operand(x, (None, "c", *(None,) * (len(x.dims) - 2))), moments, x.dims[1:2])
    for moment in moments:  # empty, or the running statistics
        per_channel = moment.shape == call["input"].shape[1:2]
        trace.facts.opaque(trace.assign(moment, x.dims[1:2] if per_channel else trace.fixed(moment.shape)))
    return None


def _divided(trace: Recorder, x: Value, variance: Value) -> Value:
    """``x`` over the root of the running variance and a constant."""
    inverse, out = Value(variance.dims), Value(x.dims)
    trace.facts.apply(aligned(variance), aligned(inverse))
    labels = aligned(x).labels
    trace.facts.multiply([aligned(x), Operand(inverse, labels[1:2])], aligned(out))
    return out


def _softmax(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    dim = call["dim"] % max(len(x.dims), 1)
    labels = tuple(None if i == dim else i for i in range(len(x.dims)))
    trace.facts.apply(Operand(x, labels), Operand(trace.assign(call.out, x.dims), labels), name="softmax")


RULES: dict[str, Rule] = {
    "native_layer_norm": _layer_norm,
    "native_group_norm": _group_norm,
    **dict.fromkeys(
        (
            "native_batch_norm",
            "_native_batch_norm_legit",
            "_native_batch_norm_legit_no_training",
            "_batch_norm_no_update",
        ),
        _batch_norm,
    ),
    **dict.fromkeys(("_softmax", "_log_softmax", "_safe_softmax"), _softmax),
}
