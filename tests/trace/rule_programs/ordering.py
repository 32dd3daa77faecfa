"""Scans, shifts, sorting, searching."""

import torch

from rule_programs._program import Program, Rows

aten = torch.ops.aten

PROGRAMS: Rows = {
    "cumsum": Program("6, 4!cumsum", lambda h: h.cumsum(2)),
    "cumsum rows": Program("4, 6!cumsum", lambda h: h.cumsum(1)),
    "cumprod": Program("6, 4!cumprod", lambda h: h.cumprod(2)),
    "logcumsumexp": Program("6, 4!logcumsumexp", lambda h: h.logcumsumexp(2)),
    "cummax": Program("6, 4!cummax", lambda h: h.cummax(2).values),
    "cummin index": Program("6, 4!cummin", lambda h: h.cummin(2).indices + h),
    "flip": Program("6, 4!flip, 4!flip", lambda h: h.flip(2)),
    "roll": Program("4, 6!roll, 6!roll", lambda h: h.roll(1, 1)),
    "sort": Program("4, 6, 4!sort", lambda h: h.sort(2).values),
    "sort index": Program("6, 4!sort", lambda h: h.sort(2).indices + h),
    "topk": Program("4, 6, 2!topk", lambda h: h.topk(2, 2).values),
    "topk index": Program("4, 2!topk, 6!topk", lambda h: h.gather(1, h.topk(2, 1).indices)),
    "argsort": Program("6, 4!sort", lambda h: aten.argsort(h, 2) + h),
    "bucketize": Program("4, 6, 3!cumsum", lambda h, b: torch.bucketize(h, b.cumsum(0)), {"b": (3,)}),
    "searchsorted": Program(
        "4, 6, 7!searchsorted",
        lambda h, b: torch.searchsorted(b.expand(2, 6, 7).contiguous(), h),
        {"b": (6, 7)},
    ),
    "quantile": Program("4, 6", lambda h: h.quantile(0.3, 2)),
}
