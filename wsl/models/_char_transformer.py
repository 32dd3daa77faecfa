"""A Transformer that is a language model of characters."""

import torch
from torch import Tensor, nn


class CharTransformer(nn.Module):
    """Embeddings of characters and positions, Transformer layers that look back only, and a linear layer.

    The layers are those of :class:`torch.nn.TransformerEncoderLayer` with normalisation first, and a last
    normalisation follows them.

    Args:
        vocabulary: number of characters.
        length: characters at most.
        d_model: width of the layers.
        heads: of each attention; divides ``d_model``.
        blocks: layers.
        feedforward: neurons between the two linear layers of each block; by default ``4 * d_model``.
        activation: of these, ``gelu`` or ``relu``.
        dropout: probability after the embedding and after each part of a block that adds to its input; has a
            part in training only.

    Shapes: input ``(B, n)`` integers, ``n <= length``, output ``(B, n, vocabulary)``: logits of the character
    after each one. Parameters are named ``embedding``, ``position``, ``blocks.{i}`` (as torch does), ``norm``
    and ``head``.

    Source: Vaswani et al. 2017 (arXiv:1706.03762), section 3. Deviates: normalisation first, learned
    positions and no encoder, as in GPT-2.
    """

    def __init__(
        self,
        vocabulary: int,
        length: int,
        d_model: int = 32,
        heads: int = 2,
        blocks: int = 1,
        feedforward: int | None = None,
        activation: str = "gelu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.position = nn.Embedding(length, d_model)
        self.dropout = nn.Dropout(dropout)
        layers = [
            nn.TransformerEncoderLayer(
                d_model, heads, feedforward or 4 * d_model, 0.0, activation, batch_first=True, norm_first=True
            )
            for _ in range(blocks)
        ]
        for layer in layers:
            layer.dropout1.p = layer.dropout2.p = dropout
        self.blocks = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        n = tokens.shape[1]
        later = torch.ones(n, n, dtype=torch.bool, device=tokens.device).triu(1)
        x = self.dropout(self.embedding(tokens) + self.position.weight[:n])
        for block in self.blocks:
            x = block(x, src_mask=later, is_causal=True)
        out: Tensor = self.head(self.norm(x))
        return out
