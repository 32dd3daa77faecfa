"""A head that reads networks of any architecture with the same parameters."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from wsl.graph import ROLES, graph_layout
from wsl.nn._heads import Features, mean_features, require
from wsl.nn._positions import KINDS
from wsl.spec import SpecError, WeightSpec


class PooledHead(nn.Module):
    """A vector for each network, of any architecture, that does not change when hidden neurons are permuted.

    Features are pooled to a fixed width, then an MLP. Nodes are pooled by their kind (hidden, input, output,
    fixed): the mean over the nodes of each set, then over the sets of a kind. Weights are pooled by their
    role (weight, bias, running statistics, other): the mean over the entries of each block, then over the
    blocks of a role. What an architecture does not have is zero: a linear model has no hidden nodes, and
    parameters that no neuron is known of have no nodes at all. So every layer counts the same, however wide
    it is. A network's vector is the same alone and in any batch.

    Args:
        channels: width of the encoder's output.
        out_features: size of the vector.
        hidden: width of the MLP; twice ``channels`` if not given.
        dropout: rate after the hidden layer of the MLP.

    Shapes: for each architecture its specification and the features of ``B_i`` networks, to
    ``(sum B_i, out_features)``, in this order.

    Raises:
        SpecError: the encoder gives no features for some node set or block, or there are none to give.
    """

    def __init__(
        self, channels: int, out_features: int, hidden: int | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        width = hidden or 2 * channels
        self.layers = nn.Sequential(
            nn.Linear((len(KINDS) + len(ROLES)) * channels, width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(width, out_features),
        )

    def pool(self, features: Sequence[tuple[WeightSpec, Features]]) -> Tensor:
        """The pooled features that the MLP reads, for embeddings: ``(sum B_i, 9 * channels)``."""
        return torch.cat([pool_by_role(spec, own) for spec, own in features])

    def forward(self, features: Sequence[tuple[WeightSpec, Features]]) -> Tensor:
        out: Tensor = self.layers(self.pool(features))
        return out


def pool_by_role(spec: WeightSpec, features: Features) -> Tensor:
    """Features of ``B`` networks to ``(B, 9 * C)``: means of kinds of nodes, then of roles of weights."""
    layout = graph_layout(spec)
    require("nodes", "node sets", features.nodes, layout.sizes)
    require("tensors", "blocks", features.tensors, (ref.key for ref in spec.blocks))
    found: dict[str, list[Tensor]] = {}
    for name, kind in layout.kinds.items():
        found.setdefault(kind, []).append(features.nodes[name].mean(1))
    for block in layout.blocks:
        found.setdefault(block.role, []).append(mean_features(features.tensors, block.key))
    if not found:
        raise SpecError("the architecture has neither neurons nor weights, so there is nothing to pool.")
    means = {name: torch.stack(parts).mean(0) for name, parts in found.items()}
    none = torch.zeros_like(next(iter(means.values())))
    return torch.cat([means.get(name, none) for name in (*KINDS, *ROLES)], dim=1)
