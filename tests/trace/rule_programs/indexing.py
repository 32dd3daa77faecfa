"""Reading and writing at indices."""

import warnings

import torch
import torch.nn.functional as F
from torch import Tensor

from rule_programs._program import Program, Rows

aten = torch.ops.aten


def _at(*entries: int) -> Tensor:
    return torch.tensor(entries)


ROWS, COLUMNS, BINS = _at(2, 0, 5), _at(1, 3), _at(0, 1, 2, 0, 1, 2).view(1, 6, 1)
EVERY = slice(None)


def _zeros(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.long)


def _assigned(h: Tensor, index: object, value: object) -> Tensor:
    h = h.clone()
    h[index] = value
    return h


def _bag(mode: str, w: Tensor, weights: Tensor | None = None) -> Tensor:
    return F.embedding_bag(_at(1, 2, 4), w, _at(0, 1), mode=mode, per_sample_weights=weights)[1]


def _least(h: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls it a beta
        return h.new_zeros(2, 6, 3).index_reduce(2, _at(0, 1, 1, 2), h, "amin")


READING: Rows = {
    "embedding": Program("4, 6, 5!embedding", lambda h, w: h + F.embedding(_at(1, 2), w)[0], {"w": (5, 4)}),
    "embedding bag": Program("4, 6, 5!_embedding_bag", lambda h, w: h + _bag("sum", w), {"w": (5, 4)}),
    "embedding bag max": Program(
        "4, 6, 5!_embedding_bag_forward_only", lambda h, w: h + _bag("max", w.detach()), {"w": (5, 4)}
    ),
    "embedding bag weighted": Program(
        "4, 6, 3!_embedding_bag, 5!_embedding_bag",
        lambda h, w, v: h + _bag("sum", w, v),
        {"w": (5, 4), "v": (3,)},
    ),
    "embedding with short rows": Program(
        "4, 6, 5!embedding_renorm",
        lambda h, w: h + F.embedding(_at(1, 2), w.detach(), max_norm=0.5)[0],
        {"w": (5, 4)},
    ),
    "index": Program("6, 2!a constant tensor met by index, 4!index", lambda h: h[:, :, COLUMNS]),
    "index rows": Program("4, 3!a constant tensor met by index, 6!index", lambda h: h[:, ROWS]),
    "index pairs": Program(
        "2!a constant tensor met by index, 4!index, 6!index", lambda h: h[:, COLUMNS, COLUMNS]
    ),
    "index apart": Program("6, 4!index", lambda h: h[_at(0, 1), :, COLUMNS]),
    "index mask": Program("6, 3!index, 4!index", lambda h: h[:, :, torch.tensor([True, False, True, True])]),
    "index hidden mask": Program("6, 4!index, 4!index", lambda h: h[:, :, h[0].sum(0) > -9]),
    "index_select": Program(
        "4, 3!a constant tensor met by index_select, 6!index_select", lambda h: h.index_select(1, ROWS)
    ),
    "gather": Program("6, 4!gather", lambda h: h.gather(2, _zeros(2, 6, 1))),
    "gather a part": Program("3!gather, 4!gather, 6!gather", lambda h: h.gather(2, _zeros(2, 3, 1))),
    "take_along_dim": Program(
        "6, 2!a constant tensor met by unsqueeze, 4!gather",
        lambda h: h.take_along_dim(COLUMNS[None, None], 2),
    ),
    "take": Program(
        "2!a constant tensor met by index, 4!index, 6!index", lambda h: h.take(_at(3, 4))[None].expand(2, 2)
    ),
    "argmax": Program("6, 4!argmax", lambda h: h.gather(2, h.argmax(2, keepdim=True))),
    "masked_select": Program(
        "6, 4!masked_select", lambda h: h.sum(1) + h[0].sum(0).masked_select(h[0].sum(0) > -9)
    ),
    "nonzero": Program("4, 6!nonzero", lambda h: h + (h.sum((0, 2)) > 0.5).nonzero().sum()),
    "unique": Program(
        "4, 6!_unique2", lambda h: h + h.sum((0, 2)).unique().sum() + h.sum((0, 2)).unique_consecutive().sum()
    ),
    "unique rows": Program("4!unique_dim, 6!unique_dim", lambda h: h + h.sum(0).unique(dim=0).sum()),
    "bincount": Program(
        "4, 6!bincount", lambda h: h + torch.bincount(_at(1, 1, 2, 2, 0, 1), h.sum((0, 2))).sum()
    ),
    "histc": Program("4, 6!histc", lambda h: h + h.sum((0, 2)).histc(3, 0, 9).sum()),
    "repeat_interleave": Program("2, 4, 6", lambda h: h.repeat_interleave(2, 2)),
    "repeat_interleave by counts": Program(
        "6, 4!index_select, 5!repeat_interleave", lambda h: h.repeat_interleave(_at(1, 2, 1, 1), 2)
    ),
    "one_hot": Program(
        "4, 6!scatter in middle; argmax", lambda h: h + F.one_hot(h.sum(2).argmax(1), 6)[:, :, None]
    ),
}
WRITING: Rows = {
    "index_put": Program(
        "4, 3!a constant tensor met by unsqueeze, 6!index_put",
        lambda h, w: h.index_put((_at(0, 1)[:, None], ROWS[None]), w),
        {"w": (3, 4)},
    ),
    "index_put weights": Program(
        "4, 5, 6",
        lambda h, w: torch.zeros(2, 6, 5, dtype=h.dtype).index_put((_at(0, 1),), h @ w),
        {"w": (4, 5)},
    ),
    "index_put added": Program(
        "4, 6", lambda h: torch.zeros_like(h).index_put((_at(0, 0),), h, accumulate=True)
    ),
    "assign": Program(
        "4, 3!a constant tensor met by index_put, 6!index_put",
        lambda h, w: _assigned(h, (EVERY, ROWS), w),
        {"w": (3, 4)},
    ),
    "assign zeros": Program("4, 6!index_put", lambda h: _assigned(h, (EVERY, ROWS), 0.0)),
    "assign numbers": Program("4, 6!index_put", lambda h: _assigned(h, (EVERY, ROWS), 1.5)),
    "assign by mask": Program("4, 6", lambda h: _assigned(h, h > 0.5, 0.0)),
    "assign by mask of rows": Program("4, 6!index_put", lambda h: _assigned(h, h.sum(2) > 0.5, 0.0)),
    "scatter": Program(
        "4, 2!scatter, 6!scatter", lambda h, w: h.scatter(1, _zeros(2, 2, 4), w), {"w": (2, 2, 4)}
    ),
    "scatter numbers": Program("6, 4!scatter", lambda h: h.scatter(2, _zeros(2, 6, 2), 1.5)),
    "scatter a part": Program("4!scatter, 6!scatter", lambda h: h.scatter(2, _zeros(2, 3, 2), 0.0)),
    "scatter at maxima": Program(
        "6, 4!argmax, 4!scatter", lambda h: torch.zeros_like(h).scatter(2, h.argmax(2, True), 1.0)
    ),
    "scatter products": Program(
        "4, 6!scatter", lambda h: h.scatter(1, BINS.expand_as(h), 2.0, reduce="multiply")
    ),
    "scatter_add": Program(
        "4, 6, 3!scatter_add", lambda h: h.new_zeros(2, 6, 3).scatter_add(2, _zeros(2, 6, 4), h)
    ),
    "scatter_add rows": Program(
        "4, 3!scatter_add, 6!a constant tensor met by expand",
        lambda h: h.new_zeros(2, 3, 4).scatter_add_(1, BINS.expand_as(h), h),
    ),
    "scatter_reduce": Program(
        "4, 3!scatter_reduce, 6!a constant tensor met by expand",
        lambda h: h.new_zeros(2, 3, 4).scatter_reduce(1, BINS.expand_as(h), h, "amax"),
    ),
    "scatter_reduce products": Program(
        "4, 3!scatter_reduce, 6!a constant tensor met by expand",
        lambda h: h.new_ones(2, 3, 4).scatter_reduce(1, BINS.expand_as(h), h, "prod"),
    ),
    "index_add": Program(
        "6, 3!index_add, 4!a constant tensor met by index_add",
        lambda h: h.new_zeros(2, 6, 3).index_add(2, _at(0, 1, 1, 2), h),
    ),
    "index_add in place": Program(
        "4, 3!index_add, 6!a constant tensor met by view",
        lambda h: h.new_zeros(2, 3, 4).index_add_(1, BINS.flatten(), h),
    ),
    "index_copy": Program(
        "4, 2!a constant tensor met by index_copy, 6!index_copy",
        lambda h, w: h.index_copy(1, _at(0, 1), w.expand(2, 2, 4)),
        {"w": (2, 4)},
    ),
    "index_reduce": Program("6, 3!index_reduce, 4!a constant tensor met by index_reduce", _least),
    "index_fill": Program("6, 4!index_fill", lambda h: h.index_fill(2, COLUMNS, 0.0)),
    "index_fill numbers": Program("4, 6!index_fill", lambda h: h.clone().index_fill_(1, ROWS, 1.0)),
    "masked_scatter": Program(
        "6, 4!masked_scatter", lambda h: h + h.new_zeros(4).masked_scatter(h.sum((0, 1)) > -9, h.sum((0, 1)))
    ),
    "put": Program("6, 4!put", lambda h: h + h.sum((0, 1)).put(_at(0, 1), h.new_ones(2))),
}
PROGRAMS: Rows = {**READING, **WRITING}
