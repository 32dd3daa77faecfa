"""Steps that compare tokens or channels: softmax, heads, packed projections."""

import torch
import torch.nn.functional as F
from torch import Tensor

from programs.program import Program, Steps, even, small


def packed_attention(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """Two heads; queries, keys and values packed in one of four ways."""
    batch, tokens, channels = a.shape
    packed = F.linear(a, p.weight(3 * channels, channels), p.weight(3 * channels))
    way = p.draw.randrange(4)
    if way == 0:
        q, k, v = packed.reshape(batch, tokens, 3, 2, -1).permute(2, 0, 3, 1, 4).unbind(0)
    elif way == 1:
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in packed.split(channels, -1))
    elif way == 2:
        q, k, v = packed.view(batch, tokens, 2, 3, -1).permute(3, 0, 2, 1, 4)
    else:
        q, k, v = packed.view(batch, tokens, 2, -1).transpose(1, 2).chunk(3, -1)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=p.draw.random() < 0.5)
    return F.linear(y.transpose(1, 2).reshape(a.shape), p.weight(channels, channels))


def cross_attention(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """Three projections, two heads; the values are tied to the keys."""
    channels = a.shape[-1]
    q, k = F.linear(a, p.weight(channels, channels)), F.linear(b, p.weight(channels, channels))
    q, k = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in (q, k))
    return ((q @ k.transpose(-1, -2)).softmax(-1) @ k).transpose(1, 2).flatten(2)


def multihead(p: Program, a: Tensor, b: Tensor) -> Tensor:
    channels = a.shape[-1]
    y, _ = F.multi_head_attention_forward(
        *(x.transpose(0, 1) for x in (a, b, b)),
        embed_dim_to_check=channels,
        num_heads=2,
        in_proj_weight=p.weight(3 * channels, channels),
        in_proj_bias=p.weight(3 * channels),
        bias_k=None,
        bias_v=None,
        add_zero_attn=False,
        dropout_p=0.0,
        out_proj_weight=p.weight(channels, channels),
        out_proj_bias=p.weight(channels),
        training=False,
        need_weights=False,
    )
    return y.transpose(0, 1)


def grouped_queries(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """Four query heads of two dimensions read two key and value heads."""
    channels = a.shape[-1]
    q = F.linear(a, p.weight(8, channels)).unflatten(-1, (4, 2)).transpose(1, 2)
    k, v = (F.linear(a, p.weight(4, channels)).unflatten(-1, (2, 2)).transpose(1, 2) for _ in "kv")
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def rotated(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """Pairs of channels as complex numbers, turned by an angle for each token and pair."""
    pairs = torch.view_as_complex(a.unflatten(-1, (-1, 2)).contiguous())
    angles = torch.outer(torch.arange(a.shape[1]), torch.arange(1, pairs.shape[-1] + 1)).to(a.dtype)
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(2)


def partly_rotated(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """The first channels of each head are turned and scaled by constants, the others are free."""
    heads = a.unflatten(-1, (2, -1))
    count = (heads.shape[-1] + 1) // 2
    turned, rest = heads[..., :count], heads[..., count:]
    turned = turned.roll(1, -1) * torch.arange(1.0, 1 + count).to(a) + turned
    parts = [turned, rest] if p.draw.random() < 0.5 else [rest, turned]
    return torch.cat(parts, -1).flatten(2)


def packed_pair(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """Two projections in one view; one of them is also used apart."""
    channels = a.shape[-1]
    pair = F.linear(a, p.weight(2 * channels, channels)).unflatten(-1, (2, channels))
    way = p.draw.randrange(3)
    if way == 0:
        return pair[:, :, 0] * pair.sum(2)
    if way == 1:
        return F.linear(pair[:, :, 0], p.weight(channels, channels)) + pair.mean(2)
    return (pair * p.weight(channels))[:, :, 1] + pair[:, :, 0]


def softmax_of_groups(p: Program, a: Tensor, b: Tensor) -> Tensor:
    return a.unflatten(-1, (2, -1)).softmax(p.draw.choice((2, 3))).flatten(2)


def heads_compared(p: Program, a: Tensor, b: Tensor) -> Tensor:
    heads = a.unflatten(-1, (2, -1))
    return torch.einsum("bthd,btgd->bthg", heads, heads).flatten(2)


STEPS: Steps = {
    "softmax": lambda p, a, b: a.softmax(p.draw.choice((1, 2))),
    "log_softmax": lambda p, a, b: a.log_softmax(-1),
    "softmax_of_groups": even(softmax_of_groups),
    "attend": lambda p, a, b: (a @ b.transpose(1, 2)).softmax(-1) @ a,
    "attend_channels": lambda p, a, b: a @ (a.transpose(1, 2) @ b).softmax(-1),
    "packed_attention": even(packed_attention),
    "cross_attention": even(cross_attention),
    "multihead": even(multihead),
    "grouped_queries": grouped_queries,
    "rotated": even(rotated),
    "partly_rotated": even(partly_rotated),
    "packed_pair": packed_pair,
    "heads_compared": even(heads_compared),
    "glu": even(lambda p, a, b: F.glu(a, -1)),
    "distances": lambda p, a, b: torch.cdist(a, b) @ a,
    "trilinear": small(
        8, lambda p, a, b: torch.einsum("btc,cde,btd->bte", a, p.weight(a.shape[-1], a.shape[-1], 4), b)
    ),
    "outer": small(4, lambda p, a, b: (a[..., :, None] * b[..., None, :]).flatten(2)),
    "outer_read": small(
        6, lambda p, a, b: (a[..., :, None] * b[..., None, :]).flatten(2) @ p.weight(a.shape[-1] ** 2, 5)
    ),
    "covariance": lambda p, a, b: a @ torch.tensordot(a, b, dims=([0, 1], [0, 1])),
}
