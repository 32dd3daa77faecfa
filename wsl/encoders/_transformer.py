"""A transformer on tokens of weights: the baseline of sequence models, without symmetry."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn

from wsl.encoders._base import DeferredTensors, Encoder, WeightFeatures
from wsl.graph import graph_layout
from wsl.nn import (
    GaussianFourierFeatures,
    MultiheadAttentionBlock,
    TokenEmbedding,
    block_slots,
    pool_to_ends,
    token_table,
)
from wsl.spec import WeightSpec


class Transformer(Encoder):
    """A transformer encoder on the weights as a sequence of tokens: NOT equivariant to permutations.

    Each neuron's weights (a row of a layer's weight, with its bias) are cut into tokens of one size, the last
    one filled up; their positions are their place in the sequence, their layer, and their place in it. So a
    permutation of hidden neurons changes the output; train with :class:`wsl.augment.Permute` if it
    should not matter much.

    Features of a weight come from its token's state, its place in the token and its own value; those of a
    neuron are the mean over those of its incoming weights, biases and norm parameters, else over its outgoing
    weights, else over all tokens.

    No learnable parameter depends on the specification: :meth:`for_spec` reads other architectures with the
    same ones. Accepts every specification.

    Args:
        spec: the specification of the weights.
        channels: width of all states, and of the output.
        layers: number of attention layers.
        heads: of attention; divides ``channels``.
        token_size: weights in a token.
        frequencies: Gaussian Fourier frequencies for every weight.

    Raises:
        ValueError: no channels, heads that do not divide them, tokens without weights, or a negative number
            of layers or frequencies.

    Source: the encoder of SANE, Schürholt et al. 2024, section 3.1 (arXiv:2406.09997). Deviates: no
    autoencoder and no contrastive loss; whole networks, no windows; sinusoids for learned positions; features
    of single weights and neurons. Costs the square of the number of tokens.
    """

    entries: Tensor
    positions: Tensor
    slots: Tensor

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 64,
        layers: int = 4,
        *,
        heads: int = 4,
        token_size: int = 64,
        frequencies: int = 16,
    ) -> None:
        super().__init__(spec, channels)
        if layers < 0:
            raise ValueError(f"Transformer needs at least 0 layers, got layers={layers}.")
        self.token_size = token_size
        self.embedding = TokenEmbedding(token_size, channels)
        self.layers = nn.ModuleList(MultiheadAttentionBlock(channels, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(channels)
        self.offsets = nn.Parameter(torch.randn(token_size, channels))
        self.fourier = GaussianFourierFeatures(frequencies)
        self.own = nn.Linear(self.fourier.channels, channels)
        self._lay_out()

    def _lay_out(self) -> None:
        self.layout = graph_layout(self.spec)
        table, device = token_table(self.spec, self.token_size), self.mean.device
        tensors = (table.entries, table.positions, block_slots(self.layout, table))
        for name, tensor in zip(("entries", "positions", "slots"), tensors, strict=True):
            self.register_buffer(name, tensor.to(device), persistent=False)

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        values = self.read(weights)
        stored = self.spec.join(values)
        flat = torch.cat(
            [tensor.reshape(len(tensor), math.prod(tensor.shape[1:])) for tensor in stored.values()], dim=1
        )
        tokens = self.embedding(flat, self.entries, self.positions)
        for layer in self.layers:
            tokens = layer(tokens, tokens)
        tokens = self.norm(tokens)
        blocks = {block.key: block.to_graph(values[block.key]) for block in self.layout.blocks}
        features = self._of_weights(blocks, tokens)
        tensors = {b.key: partial(b.from_graph, features[b.key]) for b in self.layout.blocks}
        return WeightFeatures(DeferredTensors(tensors), self._of_nodes(features, tokens.mean(1)))

    def for_spec(self, spec: WeightSpec) -> Self:
        """This encoder for another architecture: the same parameters (not copies), fresh statistics."""
        twin = self._twin(spec)
        twin._lay_out()
        return twin

    def _of_weights(self, blocks: Mapping[str, Tensor], tokens: Tensor) -> dict[str, Tensor]:
        """By block key ``(B, n_1, ..., n_k, K, C)``."""
        sizes = [math.prod(block.shape[1:]) for block in blocks.values()]
        features = {}
        for (key, block), slots in zip(blocks.items(), self.slots.split(sizes), strict=True):
            own: Tensor = self.own(self.fourier(block))
            state = tokens.index_select(1, slots // self.token_size)
            state = state.add_(self.offsets[slots % self.token_size]).reshape(own.shape)
            features[key] = (own + state).relu_()
        return features

    def _of_nodes(self, features: Mapping[str, Tensor], network: Tensor) -> dict[str, Tensor]:
        """By node set ``(B, n, C)``."""
        found: dict[tuple[str, bool], list[Tensor]] = {}
        for block in self.layout.blocks:
            states = features[block.key].mean(-2)
            if block.is_edge:
                for end, mean in pool_to_ends(block, states):
                    found.setdefault((end.nodes, end.target), []).append(mean)
            elif block.uses:
                for name, own in block.to_nodes(states):
                    found.setdefault((name, True), []).append(own)
        nodes = {}
        for name, size in self.layout.sizes.items():
            parts = found.get((name, True)) or found.get((name, False))
            shared = network.unsqueeze(1).expand(-1, size, -1)
            nodes[name] = torch.stack(parts).mean(0) if parts else shared
        return nodes
