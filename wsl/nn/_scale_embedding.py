"""Canonical weights to states that change sign with them, and to states that do not."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from wsl.graph import GraphBlock, GraphLayout
from wsl.nn._characters import sign_characters
from wsl.nn._constants import cached_constants
from wsl.nn._embedding import BlockEmbedding
from wsl.nn._fourier import GaussianFourierFeatures
from wsl.nn._positions import NEURON_FEATURES, OPERATORS, neuron_features, operator_features


class ScaleState(NamedTuple):
    """What scale equivariant message passing reads and updates, for ``B`` networks of one architecture.

    Args:
        edges: by block key, states ``(B, n_1, ..., n_k, C)`` with the characters of the blocks.
        nodes: states ``(B, N, C)`` of the nodes of all node sets, with their characters.
        invariants: states ``(B, N, C)`` of the nodes that nothing changes.
        network: states ``(B, C)`` of whole networks, likewise.
    """

    edges: Mapping[str, Tensor]
    nodes: Tensor
    invariants: Tensor
    network: Tensor


@cached_constants(256)
def flipping_nodes(layout: GraphLayout, device: torch.device) -> Tensor:
    """Which nodes change sign, ``(N, 1)``."""
    flipped = sign_characters(layout).nodes
    rows = [name in flipped for name, size in layout.sizes.items() for _ in range(size)]
    return torch.tensor(rows, dtype=torch.bool, device=device).unsqueeze(1)


class ScaleEmbedding(nn.Module):
    """Canonical weights to the initial state of scale equivariant message passing.

    States that change sign start from the odd Fourier features of weights that do so along with them,
    linearly and without a bias. Invariant states start from what the specification says of nodes, and from
    all features of absolute values. Where nothing changes sign, both start from everything.

    Args:
        channels: width of all states.
        frequencies: Gaussian frequencies for every weight.
    """

    def __init__(self, channels: int, frequencies: int) -> None:
        super().__init__()
        self.fourier = GaussianFourierFeatures(frequencies)
        self.edges = BlockEmbedding(self.fourier.channels, channels)
        self.nodes = BlockEmbedding(self.fourier.channels, channels)
        self.invariants = BlockEmbedding(self.fourier.channels, channels)
        self.networks = BlockEmbedding(self.fourier.channels, channels)
        self.neurons = nn.Linear(NEURON_FEATURES, 2 * channels)
        self.operators = nn.Parameter(torch.zeros(OPERATORS, channels))
        self.network = nn.Parameter(torch.zeros(channels))
        self.node_norm = nn.RMSNorm(channels, eps=1e-5, elementwise_affine=False)
        self.invariant_norm = nn.LayerNorm(channels)

    def forward(self, layout: GraphLayout, blocks: Mapping[str, Tensor]) -> ScaleState:
        """Embed canonical blocks ``(B, n_1, ..., n_k, K)`` by block key."""
        characters, like = sign_characters(layout), self.network
        count = next(iter(blocks.values())).shape[0]
        constants = self.neurons(neuron_features(layout, like.dtype, like.device))
        constant, invariant = constants.chunk(2, dim=-1)
        operators = operator_features(layout, like.dtype, like.device)
        invariant = invariant if operators is None else invariant + operators @ self.operators
        constant = constant.masked_fill(flipping_nodes(layout, like.device), 0)
        nodes = constant.expand(count, -1, -1).clone()
        invariants = invariant.expand(count, -1, -1).clone()
        for block in layout.nodes:
            for name, own in block.to_nodes(
                self.invariants(block, self.even_features(layout, block, blocks))
            ):
                invariants[:, layout.slices[name]] += own
            own_nodes = block.to_nodes(self._embed(self.nodes, layout, block, blocks))
            for message, (name, own) in zip(characters.messages[block.key], own_nodes, strict=True):
                if message != "nothing":
                    nodes[:, layout.slices[name]] += own
        network = self.network.expand(count, -1)
        for block in layout.globals:
            network = network + self.networks(block, self.fourier(blocks[block.key]))
        edges = {block.key: self._embed(self.edges, layout, block, blocks) for block in layout.edges}
        invariants = self.invariant_norm(invariants + network.unsqueeze(1))
        return ScaleState(edges, self.node_norm(nodes), invariants, network)

    def even_features(self, layout: GraphLayout, block: GraphBlock, blocks: Mapping[str, Tensor]) -> Tensor:
        """Fourier features ``(..., K, F)``, of absolute values where a block changes sign."""
        values = blocks[block.key]
        flips = block.key in sign_characters(layout).blocks
        features: Tensor = self.fourier(values.abs() if flips else values)
        return features

    def own_features(self, layout: GraphLayout, block: GraphBlock, blocks: Mapping[str, Tensor]) -> Tensor:
        """Fourier features ``(..., K, F)``, only odd ones, and zeros, where a block changes sign."""
        features: Tensor = self.fourier(blocks[block.key])
        if block.key in sign_characters(layout).blocks:
            odd, even = features.tensor_split([(self.fourier.channels + 1) // 2], dim=-1)
            features = torch.cat([odd, torch.zeros_like(even)], dim=-1)
        return features

    def _embed(
        self, linear: BlockEmbedding, layout: GraphLayout, block: GraphBlock, blocks: Mapping[str, Tensor]
    ) -> Tensor:
        features = self.own_features(layout, block, blocks)
        flips = block.key in sign_characters(layout).blocks
        return linear.linear(block, features) if flips else linear(block, features)
