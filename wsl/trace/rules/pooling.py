"""Pooling, resizing and padding: operators along trailing positions, alike for every channel.

Dims: channels stay free, and so do positions that a window of one leaves alone; the others are fixed. Mixing:
the positions. Homogeneity: linear; maxima have degree 1.
"""

from wsl.trace._axes import is_fixed
from wsl.trace._facts import Operand
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule

_WINDOWS = {f"avg_pool{rank}d": rank for rank in (2, 3)}
_RANKS = {
    **{f"_adaptive_avg_pool{rank}d": rank for rank in (2, 3)},
    **{f"{kind}_pad{rank}d": rank for kind in ("reflection", "replication") for rank in (1, 2, 3)},
    **{
        f"{kind}{rank}d": rank
        for kind in ("upsample_nearest", "_upsample_nearest_exact")
        for rank in (1, 2, 3)
    },
    "upsample_linear1d": 1,
    "upsample_bilinear2d": 2,
    "upsample_bicubic2d": 2,
    "upsample_trilinear3d": 3,
    "_upsample_bilinear2d_aa": 2,
    "_upsample_bicubic2d_aa": 2,
}
_MAXIMA = {f"max_pool{rank}d_with_indices": rank for rank in (2, 3)}
_ADAPTIVE_MAXIMA = {f"adaptive_max_pool{rank}d": rank for rank in (2, 3)}


def _passes(call: Call, axis: int) -> bool:
    """Whether the window along a position is a single point that moves by one."""
    window, step, padding, dilation = (
        sizes[axis % len(sizes)] if sizes else None
        for sizes in (call["kernel_size"], call["stride"], call["padding"], call.get("dilation", [1]))
    )
    return window == 1 and step in (None, 1) and padding == 0 and dilation == 1


def _along_positions(trace: Recorder, call: Call) -> None:
    x = trace.value(call["self"])
    windows = call.name in _WINDOWS or call.name in _MAXIMA
    lead = len(x.dims) - {**_RANKS, **_WINDOWS, **_MAXIMA, **_ADAPTIVE_MAXIMA}[call.name]
    kept = set(range(lead))
    for i, dim in enumerate(x.dims[lead:]):
        if windows and _passes(call, i):
            kept.add(lead + i)
        elif not is_fixed(dim):
            trace.fix(dim, "position")
    new = trace.fixed(call.outs[0].shape, "position")
    labels = tuple(i if i in kept else None for i in range(len(x.dims)))
    dims = [dim if i in kept else new[i] for i, dim in enumerate(x.dims)]
    operand = Operand(x, labels)
    out, *indices = (Operand(trace.assign(tensor, dims), labels) for tensor in call.outs)
    if call.name in _MAXIMA or call.name in _ADAPTIVE_MAXIMA:
        trace.facts.apply(operand, out, degree=1)
    else:
        trace.facts.multiply([operand], out)
    for chosen in indices:
        trace.facts.apply(operand, chosen, degree=0)
        chosen.value.indexes = tuple((x.dims[i], trace.reason()) for i in kept if i >= lead)


def _unpool(trace: Recorder, call: Call) -> None:
    """``max_unpool``: entries go back to where ``max_pool`` found them, in their channel."""
    x, indices = trace.value(call["self"]), trace.value(call["indices"])
    lead = len(x.dims) - (2 if call.name == "max_unpool2d" else 3)
    for a, b in zip(x.dims, indices.dims, strict=True):
        trace.unify(a, b)
    for dim in x.dims[lead:]:
        if not is_fixed(dim):
            trace.fix(dim, "position")
    out = trace.assign(call.out, (*x.dims[:lead], *trace.fixed(call.out.shape[lead:], "position")))
    labels = (*range(lead), *(None,) * (len(x.dims) - lead))
    trace.facts.opaque(indices)
    trace.facts.multiply([Operand(x, labels)], Operand(out, labels))


RULES: dict[str, Rule] = {
    **dict.fromkeys((*_WINDOWS, *_RANKS, *_MAXIMA, *_ADAPTIVE_MAXIMA), _along_positions),
    **dict.fromkeys(("max_unpool2d", "max_unpool3d"), _unpool),
}
