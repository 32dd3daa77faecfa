"""Features of weights on edges from the states of nodes, and their means without any state of an edge."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from wsl.graph import ROLES, GraphBlock, GraphLayout
from wsl.nn._connections import Connection, connections
from wsl.nn._embedding import PositionGains
from wsl.nn._linear_messages import matrix_messages


class BilinearReadout(nn.Module):
    """Features of the weights on the edges of a block, bilinear in the states of their ends.

    With ``f`` scalar functions of the weight ``w`` at position ``p`` of the edge from ``j`` to ``i``::

        F_role f(w_ijp) + c + gain_p * (T h_i + S h_j) + B (gain'_p * w_ijp (T' h_i) * (S' h_j))

    The mean of such features over all weights of a matrix needs no feature of any of them: sums over sources
    go past the maps, which leaves one product of the matrix with the states of nodes. A block that is used
    more than once gets the mean over its uses; nodes that share a weight are averaged first.

    Args:
        channels: width of the states of nodes and of the features.
        rank: width of the bilinear part.
        functions: number of scalar functions.
    """

    def __init__(self, channels: int, rank: int, functions: int) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.empty(len(ROLES), functions, channels))
        nn.init.uniform_(self.own, -(functions**-0.5), functions**-0.5)
        self.ends = nn.Linear(channels, 2 * channels)
        self.factors = nn.Linear(channels, 2 * rank)
        self.product = nn.Linear(rank, channels, bias=False)
        self.gains = PositionGains(channels)
        self.product_gains = PositionGains(rank)

    def forward(
        self, layout: GraphLayout, block: GraphBlock, weights: Tensor, functions: Tensor, nodes: Tensor
    ) -> Tensor:
        """Features of all weights.

        Args:
            layout: the computational graph.
            block: a block on edges.
            weights: standardised, ``(B, *sizes, K)``.
            functions: of the weights, ``(B, functions, *sizes, K)``.
            nodes: ``(B, N, channels)``.

        Returns:
            ``(B, *sizes, K, channels)``.
        """
        connection = _connection(layout, block)
        own = functions.movedim(1, -1) @ self.own[ROLES.index(block.role)]
        if not block.uses:
            return own
        ends, factors = self.ends(nodes), self.factors(nodes)
        gains, product_gains = self.gains(block, own), self.product_gains(block, own)
        rows = weights.reshape(-1, *block.inner, block.position_count, 1)
        added, multiplied = [], []
        for use in connection.uses:
            found = []
            for terminal in use:
                here, side = layout.slices[terminal.end.nodes], 0 if terminal.end.target else 1
                added.append(terminal.gather(ends[:, here].chunk(2, -1)[side]))
                found.append(terminal.gather(factors[:, here].chunk(2, -1)[side]))
            if len(found) == 2:
                both = (found[0] * found[1]).unsqueeze(-2)
                multiplied.append(rows * (both if product_gains is None else both * product_gains))
        total = sum(added[1:], added[0]).unsqueeze(-2) / len(block.uses)
        total = total if gains is None else total * gains
        if multiplied:
            total = total + self.product(sum(multiplied[1:], multiplied[0])) / len(block.uses)
        total = total.expand(*rows.shape[:-1], -1)
        return own + total.reshape(own.shape)

    def mean(
        self,
        layout: GraphLayout,
        block: GraphBlock,
        weights: Tensor,
        functions: Tensor,
        nodes: Tensor,
        factors: Tensor,
    ) -> Tensor:
        """The mean of :meth:`forward` over all weights, ``(B, channels)``; ``factors`` are those of nodes."""
        if block.sides is None or not block.uses:
            features = self(layout, block, weights, functions, nodes)
            return features.mean(list(range(1, features.dim() - 1)))
        mean = functions.flatten(2).mean(2) @ self.own[ROLES.index(block.role)]
        gains, product_gains = self.gains(block, mean), self.product_gains(block, mean)
        sizes = (*block.inner, 1, 1)[:2]
        rows = weights.reshape(-1, *sizes, block.position_count)
        maps = list(zip(self.ends.weight.chunk(2), self.ends.bias.chunk(2), strict=True))
        added, multiplied = [], []
        for use, sides in zip(block.uses, block.sides, strict=True):
            for end in use.ends:
                added.append(linear(nodes[:, layout.slices[end.nodes]].mean(1), *maps[not end.target]))
            if use.source is not None:
                here, there = (
                    end.pool(factors[:, layout.slices[end.nodes]].chunk(2, -1)[not end.target])
                    for end in use.ends
                )
                sent = matrix_messages(rows, there, product_gains, sides[0])
                degree = sizes[sides[1]] * block.position_count
                multiplied.append((here * sent).mean(1) / degree**0.5)
        total = sum(added[1:], added[0]) / len(block.uses)
        mean = mean + (total if gains is None else total * gains.mean(0))
        if multiplied:
            product = sum(multiplied[1:], multiplied[0]) / len(block.uses)
            mean = mean + self.product(product.unflatten(0, (-1, block.batch)).mean(1))
        return mean


def _connection(layout: GraphLayout, block: GraphBlock) -> Connection:
    return next(connection for connection in connections(layout) if connection.key == block.key)
