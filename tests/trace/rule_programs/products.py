"""Contractions, attention, norms, softmax and reductions."""

import torch
import torch.nn.functional as F
from torch import Tensor

from rule_programs._program import Program, Rows

aten = torch.ops.aten


def _flash(h: Tensor, w: Tensor, **options: object) -> Tensor:
    query, key, value = (part.unflatten(2, (2, 2)).transpose(1, 2) for part in (h @ w).split(4, 2))
    return aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, **options)[0]


def _sdpa(h: Tensor, w: Tensor, **options: object) -> Tensor:
    query, key, value = (part.unflatten(2, (2, 2)).transpose(1, 2) for part in (h @ w).split(4, 2))
    return F.scaled_dot_product_attention(query, key, value, **options)


def _grouped(h: Tensor, w: Tensor) -> Tensor:
    ends = torch.tensor([4, 12], dtype=torch.int32)
    return F.grouped_mm(h.flatten(0, 1), w, offs=ends).view(2, 6, 16)


def _moment(h: Tensor, which: int, norm: str) -> Tensor:
    if norm == "layer":
        return h * aten.native_layer_norm(h, [4], None, None, 1e-5)[which]
    if norm == "group":
        return aten.native_group_norm(h, None, None, 2, 6, 4, 2, 1e-5)[which]
    return aten.native_batch_norm(h, None, None, None, None, True, 0.1, 1e-5)[which] * h.sum(2)


CONTRACTIONS: Rows = {
    "bilinear": Program(
        "4, 6, 7", lambda h, w: F.bilinear(h.contiguous(), h.contiguous(), w), {"w": (7, 4, 4)}
    ),
    "cross": Program(
        "6, 3!linalg_cross, 4!linalg_cross", lambda h: torch.linalg.cross(h[:, :, :3], h[:, :, 1:])
    ),
    "cdist": Program("4, 5, 6", lambda h, w: torch.cdist(h, w), {"w": (5, 4)}),
    "cdist of order one": Program("4, 5, 6", lambda h, w: torch.cdist(h.mT, w[None], p=1.0), {"w": (5, 6)}),
    "cdist of order zero": Program("4, 5, 6", lambda h, w: torch.cdist(h, w, p=0.0), {"w": (5, 4)}),
    "pdist": Program("4, 15!_pdist_forward, 6!_pdist_forward", lambda h: F.pdist(h[0])[None].expand(2, 15)),
    "dist": Program("4, 6", lambda h: h * torch.dist(h[0], h[1])),
    "grouped_mm": Program("4, 16, 2!_grouped_mm, 6!_grouped_mm", _grouped, {"w": (2, 4, 16)}, exact=False),
    "einsum": Program("4, 6, 7", lambda h, w: torch.einsum("brc,cd,brd->bd", h, w, h @ w), {"w": (4, 7)}),
    "einsum of three": Program(
        "3, 4, 5, 6, 7",
        lambda h, w, v: torch.einsum("brc,cde,edf->brf", h, w, v),
        {"w": (4, 7, 5), "v": (5, 7, 3)},
    ),
    "einsum of outer products": Program(
        "4, 5, 6, 7", lambda h, w: torch.einsum("brc,de->brcde", h, w).sum(3), {"w": (7, 5)}
    ),
    "tensordot": Program("4, 5, 6", lambda h, w: torch.tensordot(h, w, ([2, 1], [0, 1])), {"w": (4, 6, 5)}),
    "kron": Program("2, 3, 4, 6", lambda h, w: torch.kron(h, w[None]), {"w": (3, 2)}),
    "mm": Program("4, 5, 6", lambda h, w: (h[0] @ w).expand(2, 6, 5), {"w": (4, 5)}),
    "sparse mm": Program(
        "4, 6", lambda h: torch.sparse.mm(torch.eye(2).to_sparse().to(h.dtype), h.flatten(1)).view(2, 6, 4)
    ),
    "baddbmm": Program("4, 6", lambda h, w: torch.baddbmm(h, h, w.expand(2, 4, 4)), {"w": (4, 4)}),
    "addbmm": Program("4, 6", lambda h, w: torch.addbmm(w, h, h.mT).expand(2, 6, 6), {"w": (6, 6)}),
    "addr": Program("4, 6", lambda h, v, w: h * torch.addr(h[0], v, w), {"v": (6,), "w": (4,)}),
    "mv": Program("4, 6", lambda h, w: torch.mv(h[0], w).expand(2, 6), {"w": (4,)}),
    "addmv": Program("4, 6", lambda h, w: torch.addmv(h[0].sum(1), h[0], w).expand(2, 6), {"w": (4,)}),
    "dot": Program("4, 5, 6", lambda h, v, w: h * torch.dot(v, w) * torch.vdot(w, w), {"v": (5,), "w": (5,)}),
    "meshgrid": Program(
        "4, 4, 6, 6",
        lambda h: torch.stack(torch.meshgrid(h[0].sum(0), h[0].sum(1), indexing="ij")).expand(2, 2, 4, 6),
    ),
    "attention": Program("2, 2, 2, 4, 6", _flash, {"w": (4, 12)}),
    "attention causal": Program(
        "2, 2, 2, 4, 6!_scaled_dot_product_flash_attention_for_cpu",
        lambda h, w: _flash(h, w, is_causal=True),
        {"w": (4, 12)},
    ),
    "attention masked": Program(
        "2, 2, 2, 4, 6", lambda h, w, m: _flash(h, w, attn_mask=m.detach()), {"w": (4, 12), "m": (6, 6)}
    ),
    "sdpa": Program("2, 2, 2, 4, 6", _sdpa, {"w": (4, 12)}),
    "sdpa causal": Program("2, 2, 2, 4, 6!tril", lambda h, w: _sdpa(h, w, is_causal=True), {"w": (4, 12)}),
}
STATISTICS = {"w": (6,), "b": (6,), "m": (6,), "v": (6,)}


def _normed(h: Tensor, w: Tensor, b: Tensor, m: Tensor, v: Tensor) -> Tensor:
    """Batch norm by every operator that torch has for it."""
    v = v * v
    eval_mode = aten._native_batch_norm_legit_no_training(h, w, b, m, v, 0.1, 1e-5)[0]
    no_update = aten._batch_norm_no_update(h, w, b, m, v, 0.1, 1e-5)[0]
    legit = aten._native_batch_norm_legit(h, w, b, m.clone(), v.clone(), True, 0.1, 1e-5)[0]
    return eval_mode + no_update.tanh() + legit * F.batch_norm(h, m, v, w, b)


NORMS: Rows = {
    "batch_norm in all ways": Program("4, 6", _normed, STATISTICS),
    "weight_norm": Program(
        "4, 5, 6", lambda h, w, g: h @ torch._weight_norm(w, g, 0).mT, {"w": (5, 4), "g": (5, 1)}
    ),
    "rms_norm": Program("4, 6", lambda h, w: F.rms_norm(h, (4,), w), {"w": (4,)}),
    "rms_norm as one": Program("4, 6", lambda h, w: aten._fused_rms_norm(h, [4], w, 1e-6)[0], {"w": (4,)}),
    "normalize": Program("4, 6", lambda h: F.normalize(h, dim=2)),
    "normalize by absolute values": Program("4, 6", lambda h: F.normalize(h, p=1.0, dim=1)),
    "count by norm": Program("4, 6", lambda h: h * torch.linalg.vector_norm(h, 0, 2, keepdim=True)),
    "norm": Program("4, 6", lambda h: h / torch.norm(h, dim=2, keepdim=True)),
    "frobenius": Program("4, 6", lambda h: h / torch.linalg.norm(h, dim=(1, 2), keepdim=True)),
    "spectral": Program("4!_linalg_svd, 6!_linalg_svd", lambda h: h / torch.linalg.norm(h[0], 2)),
    "renorm": Program("4, 6", lambda h: h.renorm(2, 2, 1.0)),
    "cosine": Program("4, 6", lambda h, w: F.cosine_similarity(h, w, dim=2), {"w": (4,)}),
    "pairwise": Program("4, 6", lambda h, w: F.pairwise_distance(h, w), {"w": (4,)}),
    "layer_norm": Program("4, 6", lambda h, w, b: F.layer_norm(h, (4,), w, b), {"w": (4,), "b": (4,)}),
    "group_norm": Program("2, 3, 4", lambda h, w, b: F.group_norm(h, 2, w, b), {"w": (6,), "b": (6,)}),
    "batch_norm": Program(
        "4, 6", lambda h, w, b: F.batch_norm(h, None, None, w, b, training=True), {"w": (6,), "b": (6,)}
    ),
    "instance_norm": Program("4, 6", lambda h: F.instance_norm(h)),
    "layer moments": Program("4, 6", lambda h: _moment(h, 2, "layer")),
    "group moments": Program("2, 3, 4", lambda h: _moment(h, 1, "group")),
    "batch moments": Program("4, 6", lambda h: _moment(h, 2, "batch")),
    "softmax": Program("4, 6", lambda h: h.softmax(2)),
    "log_softmax": Program("4, 6", lambda h: h.log_softmax(1)),
    "safe_softmax": Program("4, 6", lambda h: aten._safe_softmax(h, 2)),
}
_KEPT = ("sum", "mean", "nansum", "amax", "amin", "prod", "logsumexp", "std", "var", "any", "all")
_PAIRS = ("median", "nanmedian", "mode", "max", "min")
REDUCTIONS: Rows = {
    **{
        name: Program("4, 6", lambda h, name=name: getattr(h, name)(2, keepdim=True) * h)  # type: ignore[misc]
        for name in _KEPT
    },
    **{
        name: Program("4, 6", lambda h, name=name: getattr(h, name)(1, keepdim=True)[0] * h)  # type: ignore[misc]
        for name in _PAIRS
    },
    "kthvalue": Program("4, 6", lambda h: h.kthvalue(2, 1).values),
    "kthvalue index": Program("4, 6!kthvalue", lambda h: h.kthvalue(2, 1).indices * h.sum(1)),
    "aminmax": Program("4, 6", lambda h: torch.aminmax(h, dim=2).max),
    "std_mean": Program("4, 6", lambda h: torch.std_mean(h, 2)[1]),
    "var_mean": Program("4, 6", lambda h: torch.var_mean(h, 2)[0]),
    "count_nonzero": Program("4, 6", lambda h: (h > 0.5).count_nonzero(2)),
    "argmin": Program("6, 4!argmin", lambda h: h.argmin(2) + h.sum(2)),
    "of everything": Program("4, 6", lambda h: h * h.max() + h.median()),
    "maximum": Program("4, 6", lambda h: torch.max(h, h * h) + torch.min(h, h * h)),
    "maxout": Program("2, 3, 4", lambda h: h.view(2, 3, 2, 4).amax(2)),
}
PROGRAMS: Rows = {**CONTRACTIONS, **NORMS, **{f"{name} of a dim": row for name, row in REDUCTIONS.items()}}
