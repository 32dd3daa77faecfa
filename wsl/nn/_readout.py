"""States of a graph to one feature vector for each weight."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from wsl.graph import ROLES, GraphBlock
from wsl.nn._embedding import PositionGains


class WeightReadout(nn.Module):
    """The state of a node, an edge or the network, to features of every weight that lies on it.

    Weights on one edge (kernel positions) or one node (bias, norm parameters) share its state; they differ by
    gains and by their own Fourier features: ``gain_p * state + W f_p``, with ``W`` by role. An edge with a
    single weight has it in its state already, which is returned as it is.

    Shapes: state ``(B, n_1, ..., n_k, C)``, and a function that makes features ``(B, n_1, ..., n_k, K, F)``
    where they are used, to ``(B, n_1, ..., n_k, K, C)``.
    """

    def __init__(self, features: int, channels: int) -> None:
        super().__init__()
        self.gains = PositionGains(channels)
        self.weight = nn.Parameter(torch.empty(len(ROLES), features, channels))
        nn.init.uniform_(self.weight, -(features**-0.5), features**-0.5)

    def forward(self, block: GraphBlock, state: Tensor, features: Callable[[], Tensor]) -> Tensor:
        state = state.unsqueeze(-2)
        if block.is_edge and math.prod(block.positions) == 1:
            return state
        gains = self.gains(block, state)
        own = features() @ self.weight[ROLES.index(block.role)]
        return own + (state if gains is None else state * gains)
