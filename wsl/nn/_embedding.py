"""Weights to initial states of edges, nodes and the whole network; parameters fit any specification."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from wsl.graph import ROLES, GraphBlock, GraphLayout
from wsl.nn._fourier import GaussianFourierFeatures
from wsl.nn._positions import (
    NEURON_FEATURES,
    OPERATORS,
    POSITION_FEATURES,
    neuron_features,
    operator_features,
    position_features,
)


class GraphState(NamedTuple):
    """What message passing reads and updates, for ``B`` networks of one architecture.

    Args:
        edges: by block key, states ``(B, n_1, ..., n_k, C)``, a dimension for every group of the block; edges
            may have fewer channels than nodes.
        nodes: states ``(B, N, C)`` of the nodes of all node sets.
        network: states ``(B, C)`` of whole networks.
        weights: by block key, the weights of edges ``(B, n_1, ..., n_k, K)``; no layer changes them.
        gains: by block key, gains ``(K, C)`` of kernel positions, or ``None`` for ones; as constant. Empty
            where no layer reads them.
    """

    edges: Mapping[str, Tensor]
    nodes: Tensor
    network: Tensor
    weights: Mapping[str, Tensor]
    gains: Mapping[str, Tensor | None]


class PositionGains(nn.Module):
    """A gain for each channel at each kernel position of a block; 1 where there is only one position.

    A small network without biases maps :func:`position_features` to the gains, so it fits kernels of any
    size, and leaves plain matrices and first occurrences as they are.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(POSITION_FEATURES, channels, bias=False),
            nn.ReLU(),
            nn.Linear(channels, channels, bias=False),
        )

    def forward(self, block: GraphBlock, like: Tensor) -> Tensor | None:
        """Gains ``(K, channels)`` in the type of ``like``, or ``None`` for all ones."""
        features = position_features(block, like.dtype, like.device)
        return None if features is None else 1 + self.layers(features)


class BlockEmbedding(nn.Module):
    """Features of the weights on a node or an edge, to channels: linear, by role and by kernel position.

    With ``f_p`` the Fourier features of the weight at position ``p``, the state is
    ``sum_p gain_p * (W f_p) / sqrt(K) + b`` with ``W`` and ``b`` by the role of the block.

    Shapes: ``(B, n_1, ..., n_k, K, F)`` to ``(B, n_1, ..., n_k, channels)``.
    """

    def __init__(self, features: int, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(len(ROLES), features, channels))
        self.bias = nn.Parameter(torch.empty(len(ROLES), channels))
        self.gains = PositionGains(channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters, as ``nn.Linear`` does."""
        bound = self.weight.shape[1] ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, block: GraphBlock, features: Tensor) -> Tensor:
        return self.linear(block, features) + self.bias[ROLES.index(block.role)]

    def linear(self, block: GraphBlock, features: Tensor) -> Tensor:
        """The same without the bias."""
        weight, gains = self.weight[ROLES.index(block.role)], self.gains(block, self.weight)
        if gains is not None:
            weight = (weight * gains.unsqueeze(1)).flatten(0, 1) / math.sqrt(block.position_count)
        return features.flatten(-2) @ weight


class WeightEmbedding(nn.Module):
    """Weights, cut into graph blocks, to the initial state of the computational graph.

    Edges start from their weights; nodes from what the specification says of them (kind, activation, depth,
    index where it may not be permuted), their biases and norm parameters, and given node features; the
    network from weights without neurons.

    Args:
        channels: width of all states.
        frequencies: Gaussian frequencies for every weight.
        node_features: width of extra node features, such as probes; 0 for none.
        edge_channels: width of the states of edges, if it is another.
    """

    def __init__(
        self, channels: int, frequencies: int, node_features: int = 0, edge_channels: int | None = None
    ) -> None:
        super().__init__()
        self.fourier = GaussianFourierFeatures(frequencies)
        self.edges = BlockEmbedding(self.fourier.channels, edge_channels or channels)
        self.nodes = BlockEmbedding(self.fourier.channels, channels)
        self.networks = BlockEmbedding(self.fourier.channels, channels)
        self.neurons = nn.Linear(NEURON_FEATURES, channels)
        self.network = nn.Parameter(torch.zeros(channels))
        self.given = nn.Linear(node_features, channels) if node_features else None
        self.norm = nn.LayerNorm(channels)
        # Not drawn: networks without such activations start from the same parameters.
        self.operators = nn.Parameter(torch.zeros(OPERATORS, channels))

    def forward(
        self, layout: GraphLayout, blocks: Mapping[str, Tensor], node_features: Mapping[str, Tensor]
    ) -> GraphState:
        """Embed blocks ``(B, n_1, ..., n_k, K)`` and node features ``(B, n, node_features)`` by node set."""
        count = next(iter(blocks.values())).shape[0]
        edges = {
            block.key: self.edges(block, self.fourier(blocks[block.key])).relu_() for block in layout.edges
        }
        nodes = self.neurons(neuron_features(layout, self.network.dtype, self.network.device))
        operators = operator_features(layout, self.network.dtype, self.network.device)
        nodes = nodes if operators is None else nodes + operators @ self.operators
        nodes = nodes.expand(count, -1, -1).clone()
        for block in layout.nodes:
            for name, own in block.to_nodes(self.nodes(block, self.fourier(blocks[block.key]))):
                nodes[:, layout.slices[name]] += own
        if self.given is not None:
            for name, features in node_features.items():
                nodes[:, layout.slices[name]] += self.given(features)
        network = self.network.expand(count, -1)
        for block in layout.globals:
            network = network + self.networks(block, self.fourier(blocks[block.key]))
        return GraphState(edges, self.norm(nodes), network, blocks, {})
