"""Vision Transformers of a few thousand parameters."""

import torch
from torch import Tensor, nn

from wsl.models._activations import activation_module


class SmallViT(nn.Module):
    """Linear patches, learned positions, Transformer blocks, a mean over patches and a linear layer.

    Args:
        in_channels, height, width: of the images; ``patch`` divides both sides.
        patch: side of the patches.
        d_model: width of the blocks.
        heads: of each attention; divides ``d_model``.
        blocks: how many.
        feedforward: neurons between the two linear layers of each block.
        classes: outputs.
        activation: name of the activation, see :data:`wsl.models.ACTIVATIONS`.
        dropout: probability after the activation in each block; has a part in training only.

    Shapes: input ``(B, in_channels, height, width)``, output ``(B, classes)``. Parameters are named
    ``patches``, ``positions``, ``blocks.{i}.{norm1,qkv,out,norm2,linear1,linear2}``, ``norm`` and ``dense``.

    Raises:
        ValueError: sides that ``patch`` does not divide, a width that ``heads`` does not, or an unknown
            activation.

    Source: Dosovitskiy et al. 2021 (arXiv:2010.11929), section 3.1. Deviates: the mean over patches in the
    place of a class token.
    """

    def __init__(
        self,
        in_channels: int = 1,
        height: int = 28,
        width: int = 28,
        patch: int = 7,
        d_model: int = 16,
        heads: int = 2,
        blocks: int = 2,
        feedforward: int = 32,
        classes: int = 10,
        activation: str = "gelu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if height % patch or width % patch or d_model % heads:
            raise ValueError(
                f"expected sides that patch {patch} divides and a width that {heads} heads divide, got "
                f"{height} x {width} pixels and a width of {d_model}."
            )
        self.patches = nn.Conv2d(in_channels, d_model, patch, patch)
        self.positions = nn.Parameter(0.02 * torch.randn(height * width // patch**2, d_model))
        self.blocks = nn.ModuleList(
            _Block(d_model, heads, feedforward, activation, dropout) for _ in range(blocks)
        )
        self.norm, self.dense = nn.LayerNorm(d_model), nn.Linear(d_model, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.dense(self.norm(x).mean(dim=1))
        return out


class _Block(nn.Module):
    def __init__(self, d_model: int, heads: int, feedforward: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.linear1, self.linear2 = nn.Linear(d_model, feedforward), nn.Linear(feedforward, d_model)
        self.activation, self.dropout = activation_module(activation), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        weights = (query @ key.transpose(-2, -1) * key.shape[-1] ** -0.5).softmax(-1)
        x = x + self.out((weights @ value).transpose(1, 2).flatten(2))
        inner: Tensor = self.linear2(self.dropout(self.activation(self.linear1(self.norm2(x)))))
        return x + inner
