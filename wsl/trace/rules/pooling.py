"""Pooling, resizing and padding: operators along trailing positions, alike for every channel."""

from wsl.trace._axes import is_fixed
from wsl.trace._facts import Operand
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule

_RANKS = {
    **{f"avg_pool{rank}d": rank for rank in (1, 2, 3)},
    **{f"_adaptive_avg_pool{rank}d": rank for rank in (2, 3)},
    **{f"{kind}_pad{rank}d": rank for kind in ("reflection", "replication") for rank in (1, 2, 3)},
    **{
        f"{kind}{rank}d": rank
        for kind in ("upsample_nearest", "_upsample_nearest_exact")
        for rank in (1, 2, 3)
    },
    "adaptive_avg_pool1d": 1,
    "upsample_linear1d": 1,
    "upsample_bilinear2d": 2,
    "upsample_bicubic2d": 2,
    "upsample_trilinear3d": 3,
    "_upsample_bilinear2d_aa": 2,
    "_upsample_bicubic2d_aa": 2,
}
_MAXIMA = {
    **{f"max_pool{rank}d_with_indices": rank for rank in (2, 3)},
    **{f"adaptive_max_pool{rank}d": rank for rank in (2, 3)},
    "max_pool1d": 1,
}


def _along_positions(trace: Recorder, call: Call) -> None:
    x = trace.value(call.tensors[0])
    maximum = call.name in _MAXIMA
    lead = len(x.dims) - (_MAXIMA if maximum else _RANKS)[call.name]
    for dim in x.dims[lead:]:
        if not is_fixed(dim):
            trace.fix(dim, "position")
    values = [
        trace.assign(tensor, (*x.dims[:lead], *trace.fixed(tensor.shape[lead:], "position")))
        for tensor in call.outs
    ]
    free = (None,) * (len(x.dims) - lead)
    operand, out = Operand(x, (*range(lead), *free)), Operand(values[0], (*range(lead), *free))
    if maximum:
        trace.facts.apply(operand, out, degree=1)
        for indices in values[1:]:
            trace.facts.apply(operand, Operand(indices, out.labels), degree=0)
    else:
        trace.facts.multiply([operand], out)


RULES: dict[str, Rule] = dict.fromkeys((*_RANKS, *_MAXIMA), _along_positions)
