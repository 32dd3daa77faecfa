"""Attention: torch's modules, and blocks written by hand that pack queries, keys and values in every way."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from architectures.known import Known

WIDTH, HEADS, INNER = 6, 2, 3
KEY_BIAS = "softmax over keys does not see what the key bias adds to all of them: it may take any value"


class Attention(nn.Module):
    """Multi-head attention between two linear layers; the output projection is a layer of its own."""

    def __init__(self, biased: bool = True) -> None:
        super().__init__()
        self.embed = nn.Linear(3, WIDTH)
        self.attend = nn.MultiheadAttention(WIDTH, HEADS, bias=biased, batch_first=True)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        return self.head(self.attend(x, x, x, need_weights=False)[0])


class AttentionWeights(Attention):
    """Returns the attention, averaged over heads, as well."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embed(x)
        y, weights = self.attend(x, x, x)
        return self.head(y), weights


class CrossAttention(nn.Module):
    """Queries, keys and values of different widths: three projections that are not packed."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.keys, self.values = nn.Linear(3, WIDTH), nn.Linear(3, 5), nn.Linear(3, 4)
        self.attend = nn.MultiheadAttention(WIDTH, HEADS, kdim=5, vdim=4, bias=False, batch_first=True)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        keys, values = self.keys(memory).tanh(), self.values(memory).tanh()
        return self.head(self.attend(self.queries(x).tanh(), keys, values, need_weights=False)[0])


class Encoder(nn.Module):
    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(3, WIDTH), nn.Linear(WIDTH, 2)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 5, batch_first=True, norm_first=norm_first)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.embed(x)).mean(1))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.memory, self.head = nn.Linear(3, WIDTH), nn.Linear(4, WIDTH), nn.Linear(WIDTH, 2)
        self.layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 5, batch_first=True)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        return self.head(self.layer(self.embed(x), self.memory(memory), tgt_mask=mask))


class SelfAttention(nn.Module):
    """Queries, keys and values in three layers, or in one that ``packing`` takes apart; no biases."""

    def __init__(self, packing: str, biased: bool = False) -> None:
        super().__init__()
        self.packing = packing
        names = ("q", "k", "v") if packing == "none" else ("qkv",)
        for name in names:
            setattr(self, name, nn.Linear(WIDTH, 3 * WIDTH // len(names), bias=biased))
        self.proj = nn.Linear(WIDTH, WIDTH)

    def heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], HEADS, INNER).transpose(1, 2)

    def unpacked(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values ``(batch, heads, tokens, inner)``."""
        if self.packing == "none":
            return tuple(self.heads(layer(x)) for layer in (self.q, self.k, self.v))
        packed = self.qkv(x)
        if self.packing == "split":
            return tuple(map(self.heads, packed.split(WIDTH, -1)))
        if self.packing == "unbind":
            return packed.reshape(*x.shape[:2], 3, HEADS, INNER).permute(2, 0, 3, 1, 4).unbind(0)
        if self.packing == "middle":
            return packed.view(*x.shape[:2], HEADS, 3, INNER).permute(3, 0, 2, 1, 4).unbind(0)
        assert self.packing == "interleaved"
        return packed.view(*x.shape[:2], HEADS, 3 * INNER).transpose(1, 2).chunk(3, -1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.unpacked(x)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(x.shape))


class WrittenOut(SelfAttention):
    """Products, mask and softmax by hand."""

    def __init__(self) -> None:
        super().__init__("split", biased=True)
        self.register_buffer("mask", torch.ones(5, 5).tril().bool())

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.unpacked(x)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(INNER)
        tokens = x.shape[1]
        scores = scores.masked_fill(~self.mask[:tokens, :tokens], float("-inf"))
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(x.shape))


class Block(nn.Module):
    """A pre-norm block with a GELU MLP of ``hidden`` neurons."""

    def __init__(self, attention: nn.Module, hidden: int = 5) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(WIDTH), attention, nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, hidden), nn.GELU(), nn.Linear(hidden, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def between(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, WIDTH), *layers, nn.Linear(WIDTH, 2))


class EinsumAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Parameter(torch.randn(3, 4, 5)) for _ in range(3))
        self.out = nn.Parameter(torch.randn(4, 5, 2))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (torch.einsum("btc,chd->bhtd", x, w) for w in (self.q, self.k, self.v))
        weights = torch.einsum("bhtd,bhsd->bhts", q, k).softmax(-1)
        return torch.einsum("bhts,bhsd,hdo->bto", weights, v, self.out)


def _sequence() -> Tensor:
    return torch.randn(2, 4, 3)


_WITHIN_HEADS = """
    axes  h1: 6 hidden linear  h2: 2 hidden softmax  h3: 3 hidden linear  h4: 3 hidden linear
    axes  h5: 6 hidden linear  x: 3 input  y: 2 output
    0.weight       h1 x
    0.bias         h1
    1.qkv.weight   (h2 (h3[h2] + h3[h2] + h4[h2])) h1
    1.proj.weight  h5 (h2 h4[h2])
    1.proj.bias    h5
    2.weight       y h5
    2.bias         y
    scaling: h1 linear 0.weight+1 0.bias+1 1.qkv.weight[0]-1 1.qkv.weight[1]-1 1.qkv.weight[2]-1
    scaling: h3 linear 1.qkv.weight[0]+1 1.qkv.weight[1]-1
    scaling: h4 linear 1.qkv.weight[2]+1 1.proj.weight-1
    scaling: h5 linear 1.proj.weight+1 1.proj.bias+1 2.weight-1
"""

ROWS = {
    "multihead_attention": Known(
        Attention,
        _sequence,
        "2 3|2^2 6^2",
        dull=("attend.in_proj_bias[1] along *",),
        missing=KEY_BIAS,
    ),
    "multihead_attention_weights": Known(
        AttentionWeights,
        _sequence,
        "2 3|2^2 6^2",
        dull=("attend.in_proj_bias[1] along *",),
        missing=KEY_BIAS,
    ),
    "multihead_attention_unbiased": Known(
        lambda: Attention(biased=False),
        _sequence,
        "2 3|2^2 6^2",
        """
        axes  h1: 6 hidden linear  h2: 2 hidden softmax  h3: 3 hidden linear  h4: 3 hidden linear
        axes  h5: 6 hidden linear  x: 3 input  y: 2 output
        embed.weight            h1 x
        embed.bias              h1
        attend.in_proj_weight   (h2 h3[h2] + h2 h3[h2] + h2 h4[h2]) h1
        attend.out_proj.weight  h5 (h2 h4[h2])
        head.weight             y h5
        head.bias               y
        scaling: h1 linear embed.weight+1 embed.bias+1 attend.in_proj_weight[0]-1 attend.in_proj_weight[1]-1 attend.in_proj_weight[2]-1
        scaling: h3 linear attend.in_proj_weight[0]+1 attend.in_proj_weight[1]-1
        scaling: h4 linear attend.in_proj_weight[2]+1 attend.out_proj.weight-1
        scaling: h5 linear attend.out_proj.weight+1 head.weight-1
        """,  # noqa: E501
    ),
    "cross_attention": Known(
        CrossAttention, lambda: (torch.randn(2, 4, 3), torch.randn(2, 5, 3)), "2 3|2^2 4 5 6^2"
    ),
    "transformer_encoder": Known(
        lambda: Encoder(norm_first=True),
        _sequence,
        "2^2 3|2^4 5^2 6",
        dull=("*.in_proj_bias[1] along *",),
        missing=KEY_BIAS,
    ),
    "transformer_encoder_post_norm": Known(
        lambda: Encoder(norm_first=False),
        _sequence,
        "2^2 3|2^4 5^2 6",
        dull=("*.in_proj_bias[1] along *",),
        missing=KEY_BIAS,
    ),
    "transformer_decoder": Known(
        Decoder,
        lambda: (torch.randn(2, 4, 3), torch.randn(2, 5, 4)),
        "2^2 3|2^4 5 6",
        dull=("*.in_proj_bias[1] along *",),
        missing="the memory's neurons may move apart from the stream's, but in_proj_weight has one dimension "
        "for what its queries read and what its keys read; " + KEY_BIAS,
    ),
    "attention_block": Known(
        lambda: between(Block(SelfAttention("none", biased=True))),
        _sequence,
        "2 3|2^2 5 6",
        dull=("1.attention.k.bias along *",),
        missing=KEY_BIAS,
    ),
    "attention_qkv_split": Known(lambda: between(SelfAttention("split")), _sequence, "2 3|2^2 6^2"),
    "attention_qkv_unbind": Known(lambda: between(SelfAttention("unbind")), _sequence, "2 3|2^2 6^2"),
    "attention_qkv_interleaved": Known(
        lambda: between(SelfAttention("interleaved")), _sequence, "2 3|2^2 6^2", _WITHIN_HEADS
    ),
    "attention_qkv_middle": Known(
        lambda: between(SelfAttention("middle")), _sequence, "2 3|2^2 6^2", _WITHIN_HEADS
    ),
    "attention_written_out": Known(
        lambda: between(WrittenOut()),
        _sequence,
        "2 3|2^2 6^2",
        dull=("1.qkv.bias[1] along *",),
        missing=KEY_BIAS,
    ),
    "block_used_twice": Known(
        lambda: between(*[Block(SelfAttention("split"))] * 2), _sequence, "2 3|2^2 5 6"
    ),
    "attention_einsum": Known(
        EinsumAttention,
        _sequence,
        "4 5|4^2",
        """
        axes  h1: 4 hidden softmax  h2: 5 hidden linear  h3: 5 hidden linear  x: 3 input  y: 2 output
        q    x h1 h2[h1]
        k    x h1 h2[h1]
        v    x h1 h3[h1]
        out  h1 h3[h1] y
        scaling: h2 linear q+1 k-1
        scaling: h3 linear v+1 out-1
        """,
    ),
}
