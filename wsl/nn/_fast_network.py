"""A state of the whole network that reads the means of its nodes, kind by kind."""

import torch
from torch import Tensor, nn

from wsl.graph import GraphLayout
from wsl.nn._constants import cached_constants
from wsl.nn._positions import KINDS


class NetworkUpdate(nn.Module):
    """``g <- norm(g + O relu(I g + sum_k J_k mean_k))`` with the means of the nodes of each kind.

    Wide maps cost little here: a network has one such state, and hundreds of nodes.

    Args:
        width: of the state.
        channels: of the nodes; 0 to read none.
    """

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, width)
        self.means = nn.Linear(len(KINDS) * channels, width, bias=False) if channels else None
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, network: Tensor, means: Tensor | None = None) -> Tensor:
        """New states ``(B, width)`` from states and :func:`kind_means` of nodes."""
        hidden = self.own(network)
        if self.means is not None:
            assert means is not None
            hidden = hidden + self.means(means)
        new: Tensor = self.norm(network + self.out(hidden.relu()))
        return new


def kind_means(layout: GraphLayout, nodes: Tensor) -> Tensor:
    """Nodes ``(B, N, C)`` to the means of hidden, input, output and fixed ones, zeros if there are none.

    Returns:
        ``(B, 4 * C)``.
    """
    return (_shares(layout, nodes.dtype, nodes.device) @ nodes).flatten(1)


@cached_constants(256)
def _shares(layout: GraphLayout, dtype: torch.dtype, device: torch.device) -> Tensor:
    shares = torch.zeros(len(KINDS), sum(layout.sizes.values()), dtype=dtype, device=device)
    for name, rows in layout.slices.items():
        shares[KINDS.index(layout.kinds[name]), rows] = 1
    return shares / shares.sum(1, keepdim=True).clamp(min=1)
