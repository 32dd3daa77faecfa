"""Weights, and what networks do at learned inputs, to initial states of nodes and of the network."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from wsl.graph import ROLES, GraphBlock, GraphLayout
from wsl.nn._connections import connections
from wsl.nn._embedding import BlockEmbedding
from wsl.nn._fast_network import kind_means
from wsl.nn._fourier import GaussianFourierFeatures
from wsl.nn._positions import (
    KINDS,
    NEURON_FEATURES,
    OPERATORS,
    neuron_features,
    operator_features,
)


class FastEmbedding(nn.Module):
    """Initial states of nodes and of the network; edges have none.

    Nodes start from what the specification says of them, the weights on them, the mean of scalar functions
    of the weights that lead to and from them, and their activity: what they do at given inputs. The state of
    the network starts from the weights without neurons, and from the mean activity of each kind of nodes, so
    that what outputs do reaches it undiluted.

    Args:
        channels: width of the states of nodes.
        width: of the state of the network.
        frequencies: Gaussian frequencies for every weight on a node.
        functions: number of scalar functions of weights on edges.
        activity: width of the activity; 0 for none.
    """

    def __init__(self, channels: int, width: int, frequencies: int, functions: int, activity: int) -> None:
        super().__init__()
        self.fourier = GaussianFourierFeatures(frequencies)
        self.nodes = BlockEmbedding(self.fourier.channels, channels)
        self.networks = BlockEmbedding(self.fourier.channels, width)
        self.neurons = nn.Linear(NEURON_FEATURES, channels)
        # Not drawn: networks without such activations start from the same parameters.
        self.operators = nn.Parameter(torch.zeros(OPERATORS, channels))
        self.ends = nn.Parameter(torch.empty(2, len(ROLES), functions, channels))
        nn.init.uniform_(self.ends, -(functions**-0.5), functions**-0.5)
        self.active = nn.Linear(activity, channels, bias=False) if activity else None
        self.network = nn.Parameter(torch.zeros(width))
        self.network_active = nn.Linear(len(KINDS) * activity, width, bias=False) if activity else None
        self.norm = nn.LayerNorm(channels)

    def forward(
        self,
        layout: GraphLayout,
        blocks: Mapping[str, Tensor],
        functions: Mapping[str, Tensor],
        activity: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Embed networks.

        Args:
            layout: the computational graph.
            blocks: standardised, ``(B, n_1, ..., n_k, K)`` by key.
            functions: of those on edges, ``(B, functions, n_1, ..., n_k, K)`` by key.
            activity: ``(B, N, activity)``.

        Returns:
            States ``(B, N, channels)`` of nodes and ``(B, width)`` of networks.
        """
        count = next(iter(blocks.values())).shape[0]
        nodes = self.neurons(neuron_features(layout, self.network.dtype, self.network.device))
        operators = operator_features(layout, self.network.dtype, self.network.device)
        nodes = nodes if operators is None else nodes + operators @ self.operators
        nodes = nodes.expand(count, -1, -1)
        if self.active is not None:
            nodes = nodes + self.active(activity)
        received: dict[str, list[Tensor]] = {name: [] for name in layout.sizes}
        for block in layout.nodes:
            for name, own in block.to_nodes(self.nodes(block, self.fourier(blocks[block.key]))):
                received[name].append(own)
        for block, connection in zip(layout.edges, connections(layout), strict=False):
            mean = functions[block.key].mean(-1).movedim(1, -1)
            mean = mean.reshape(-1, *block.inner, mean.shape[-1])
            for terminal in connection.terminals:
                pooled = mean.mean(terminal.others) if terminal.others else mean
                matrix = self.ends[int(terminal.end.target), ROLES.index(block.role)]
                received[terminal.end.nodes].append(terminal.scatter(pooled) @ matrix)
        held = [
            sum(parts[1:], parts[0]) if parts else torch.zeros_like(nodes[:, layout.slices[name]])
            for name, parts in received.items()
        ]
        nodes = nodes + torch.cat([nodes[:, :0], *held], dim=1)  # a network may have no neurons
        network = self.network.expand(count, -1)
        for block in layout.globals:
            network = network + self._of_network(block, blocks[block.key])
        if self.network_active is not None and activity is not None:
            network = network + self.network_active(kind_means(layout, activity))
        return self.norm(nodes), network

    def _of_network(self, block: GraphBlock, weights: Tensor) -> Tensor:
        embedded: Tensor = self.networks(block, self.fourier(weights))
        return embedded
