"""Attention among the elements of sets, and from sets to a few learned queries."""

import torch
from torch import Tensor, nn

from wsl.nn._attention import attention


class MultiheadAttentionBlock(nn.Module):
    """Attention of one set to another, then a feed-forward layer; residual, normalised before each.

    ``h = x + attention(norm(x), norm'(y))`` and ``h + MLP(norm''(h))``. With ``y = x`` it is a layer of a
    transformer encoder, equivariant to permutations of ``x``.

    Args:
        channels: width of both sets.
        heads: number of heads; divides ``channels``.

    Shapes: ``x`` ``(B, n, C)`` and ``y`` ``(B, m, C)`` to ``(B, n, C)``.

    Raises:
        ValueError: ``heads`` does not divide ``channels``.

    Source: Lee et al. 2019, MAB (arXiv:1810.00825). Deviates: norms before instead of after, as in later
    transformers; a hidden layer of twice the width.
    """

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        if heads < 1 or channels % heads:
            raise ValueError(f"the heads must share all channels evenly: channels={channels}, heads={heads}.")
        self.heads = heads
        self.query_norm = nn.LayerNorm(channels)
        self.key_norm = nn.LayerNorm(channels)
        self.query = nn.Linear(channels, channels)
        self.key_value = nn.Linear(channels, 2 * channels)
        self.out = nn.Linear(channels, channels)
        self.layers = nn.Sequential(
            nn.LayerNorm(channels),
            nn.Linear(channels, 2 * channels),
            nn.ReLU(),
            nn.Linear(2 * channels, channels),
        )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        query = self._split(self.query(self.query_norm(x)))
        key, value = (self._split(part) for part in self.key_value(self.key_norm(y)).chunk(2, dim=-1))
        attended = attention(query, key, value)
        hidden = x + self.out(attended.transpose(1, 2).flatten(2))
        out: Tensor = hidden + self.layers(hidden)
        return out

    def _split(self, states: Tensor) -> Tensor:
        """``(B, n, C)`` to ``(B, heads, n, C / heads)``."""
        return states.unflatten(2, (self.heads, -1)).transpose(1, 2)


class InducedAttention(nn.Module):
    """Attention within a set by way of learned inducing points: linear in the size of the set.

    ``ISAB(x) = MAB(x, MAB(I, x))`` with ``m`` learned points ``I``; equivariant to permutations of ``x``.

    Args:
        channels: width of the set.
        heads: number of heads; divides ``channels``.
        points: number ``m`` of inducing points.

    Shapes: ``(B, n, C)`` to ``(B, n, C)``.

    Source: Lee et al. 2019, ISAB (arXiv:1810.00825).
    """

    def __init__(self, channels: int, heads: int, points: int) -> None:
        super().__init__()
        self.points = _queries(points, channels)
        self.gather = MultiheadAttentionBlock(channels, heads)
        self.spread = MultiheadAttentionBlock(channels, heads)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.spread(x, self.gather(self.points.expand(len(x), -1, -1), x))
        return out


class AttentionPooling(nn.Module):
    """A set to one vector, by the attention of a learned query; invariant to permutations.

    Shapes: ``(B, n, C)`` to ``(B, C)``.

    Source: Lee et al. 2019, PMA with one seed (arXiv:1810.00825).
    """

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.seed = _queries(1, channels)
        self.pool = MultiheadAttentionBlock(channels, heads)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.pool(self.seed.expand(len(x), -1, -1), x)
        return out.squeeze(1)


def _queries(count: int, channels: int) -> nn.Parameter:
    if count < 1:
        raise ValueError(f"attention needs at least one inducing point, got points={count}.")
    return nn.Parameter(torch.randn(count, channels))
