"""Whole transformers written by hand: of images, tied, with grouped queries and rotary positions."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from architectures.attention import HEADS, INNER, WIDTH, Block, SelfAttention, between
from architectures.known import Known

VOCABULARY = 7


class VisionTransformer(nn.Module):
    """Patches, a class token, learned positions (arXiv:2010.11929)."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.class_token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.randn(1, 5, WIDTH))
        self.blocks = nn.Sequential(*(Block(SelfAttention("unbind")) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class TiedLanguageModel(nn.Module):
    """The embedding is the head as well."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(6, WIDTH)
        self.blocks = nn.Sequential(*(Block(SelfAttention("split")) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


class RootMeanSquare(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class GroupedQueries(nn.Module):
    """Four query heads read two key and value heads, with rotary positions (arXiv:2104.09864)."""

    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.size = size
        self.q, self.k = nn.Linear(16, 4 * size, bias=False), nn.Linear(16, 2 * size, bias=False)
        self.v, self.out = nn.Linear(16, 2 * size, bias=False), nn.Linear(4 * size, 16, bias=False)
        angles = torch.outer(torch.arange(6.0), 100 ** -(torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotated(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        tokens = x.shape[2]
        return x * self.cos[:tokens] + torch.cat([-b, a], -1) * self.sin[:tokens]

    def heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], -1, self.size).transpose(1, 2)

    def repeated(self, x: Tensor) -> Tensor:
        batch, heads, tokens, size = x.shape
        return x[:, :, None].expand(batch, heads, 2, tokens, size).reshape(batch, 2 * heads, tokens, size)

    def forward(self, x: Tensor) -> Tensor:
        q, k = self.rotated(self.heads(self.q(x))), self.rotated(self.heads(self.k(x)))
        k, v = self.repeated(k), self.repeated(self.heads(self.v(x)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(*x.shape[:2], -1))


class PartlyRotated(nn.Module):
    """Two of five dimensions of each head turn with the position; one tensor for all (arXiv:2204.06745)."""

    def __init__(self) -> None:
        super().__init__()
        self.packed, self.out = nn.Linear(WIDTH, 2 * 3 * 5, bias=False), nn.Linear(2 * 5, WIDTH)
        angles = torch.arange(6.0).outer(torch.ones(2))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotated(self, x: Tensor) -> Tensor:
        turned, rest = x[..., :2], x[..., 2:]
        a, b = turned.chunk(2, -1)
        tokens = x.shape[2]
        turned = turned * self.cos[:tokens] + torch.cat([-b, a], -1) * self.sin[:tokens]
        return torch.cat([turned, rest], -1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.packed(x).view(*x.shape[:2], 2, -1).transpose(1, 2).chunk(3, -1)
        y = F.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(*x.shape[:2], -1))


class Llama(nn.Module):
    """Root mean square norms, grouped queries, rotary positions, SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(VOCABULARY, 16), nn.Linear(16, VOCABULARY, bias=False)
        self.norms = nn.ModuleList(RootMeanSquare(16) for _ in range(3))
        self.attention = GroupedQueries()
        self.gate, self.up = nn.Linear(16, 5, bias=False), nn.Linear(16, 5, bias=False)
        self.down = nn.Linear(5, 16, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        x = x + self.attention(self.norms[0](x))
        y = self.norms[1](x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.head(self.norms[2](x))


ROTARY = "rotations of each pair of rotated dimensions, in queries and keys alike: no permutations"
assert HEADS * INNER == WIDTH

ROWS = {
    "vision_transformer": Known(VisionTransformer, lambda: torch.randn(2, 3, 8, 8), "2^2 3|2^4 5^2 6"),
    "tied_language_model": Known(
        TiedLanguageModel, lambda: torch.randint(0, VOCABULARY, (2, 5)), "2^2 3|2^4 5^2 6"
    ),
    "partly_rotated": Known(
        lambda: between(PartlyRotated()),
        lambda: torch.randn(2, 5, 3),
        "2 3|2 5|2 6^2",
        missing=ROTARY,
    ),
    "llama": Known(
        Llama,
        lambda: torch.randint(0, VOCABULARY, (2, 6)),
        "2 2|2 4|2 5 16",
        missing=ROTARY,
    ),
}
