"""Heads: from features of weights and neurons to a vector, or to an update of the weights."""

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from wsl.graph import graph_layout
from wsl.nn._mlp import MLP
from wsl.spec import SpecError, WeightSpec


class Features(Protocol):
    """What heads read: the two fields of :class:`wsl.encoders.WeightFeatures`."""

    @property
    def tensors(self) -> Mapping[str, Tensor]: ...

    @property
    def nodes(self) -> Mapping[str, Tensor]: ...


class InvariantHead(nn.Module):
    """A vector for each network that does not change when hidden neurons are permuted.

    Pools the nodes of every node set and the features of every block by their mean, then an MLP. Sets of at
    most ``ordered`` nodes that may not be permuted, as inputs and outputs, keep their nodes apart.

    Args:
        spec: the specification of the weights; the head's parameters depend on it.
        channels: width of the encoder's output.
        out_features: size of the vector.
        hidden: width of the MLP; twice ``channels`` if not given.
        dropout: rate after the hidden layer of the MLP.
        ordered: largest node set whose nodes are kept apart.

    Shapes: ``WeightFeatures`` of ``B`` networks to ``(B, out_features)``.
    """

    def __init__(
        self,
        spec: WeightSpec,
        channels: int,
        out_features: int,
        hidden: int | None = None,
        dropout: float = 0.0,
        ordered: int = 4,
    ) -> None:
        super().__init__()
        self.spec = spec
        layout = graph_layout(spec)
        self.apart = frozenset(
            name for name, size in layout.sizes.items() if layout.kinds[name] != "hidden" and size <= ordered
        )
        self.names = tuple(layout.sizes)  # not asked of the layout in every pass: compilers stop at its cache
        self.keys = tuple(ref.key for ref in spec.blocks)
        rows = sum(size if name in self.apart else 1 for name, size in layout.sizes.items())
        width = hidden or 2 * channels
        self.layers = MLP((rows + len(self.keys)) * channels, width, 1, out_features, dropout)

    def pool(self, features: Features) -> Tensor:
        """The pooled features that the MLP reads, for embeddings: ``(B, pooled)``.

        Raises:
            SpecError: the encoder gives no features for some node set or block.
        """
        require("nodes", "node sets", features.nodes, self.names)
        require("tensors", "blocks", features.tensors, self.keys)
        parts = [
            nodes.flatten(1) if name in self.apart else nodes.mean(1)
            for name, nodes in ((name, features.nodes[name]) for name in self.names)
        ]
        parts += [mean_features(features.tensors, key) for key in self.keys]
        return torch.cat(parts, dim=-1)

    def forward(self, features: Features) -> Tensor:
        out: Tensor = self.layers(self.pool(features))
        return out


class EquivariantHead(nn.Module):
    """An update of every weight, permuted along with the weights.

    One MLP for all weights, and a learned gain for each block. The update starts small (``scale``).

    Args:
        spec: the specification of the weights; only the gains depend on it.
        channels: width of the encoder's output.
        scale: initial gain.

    Shapes: ``WeightFeatures`` of ``B`` networks to a ``dict`` of name to ``(B, *shape)``, as the weights.

    Raises:
        SpecError: the encoder gives no features for some block.
    """

    def __init__(self, spec: WeightSpec, channels: int, scale: float = 0.01) -> None:
        super().__init__()
        self.spec = spec
        self.keys = tuple(ref.key for ref in spec.blocks)
        self.layers = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, 1))
        self.gain = nn.Parameter(torch.full((len(self.keys),), scale))

    def forward(self, features: Features) -> dict[str, Tensor]:
        require("tensors", "blocks", features.tensors, self.keys)
        blocks = {
            key: self.layers(features.tensors[key]).squeeze(-1) * self.gain[i]
            for i, key in enumerate(self.keys)
        }
        return self.spec.join(blocks)


@runtime_checkable
class Averaged(Protocol):
    """Features of weights that know their means, as those of fast encoders do."""

    def mean(self, key: str) -> Tensor:
        """The mean over all weights of a block, ``(B, C)``."""


def mean_features(tensors: Mapping[str, Tensor], key: str) -> Tensor:
    """The mean of features ``(B, *view, C)`` over the weights of a block, ``(B, C)``."""
    if isinstance(tensors, Averaged):
        return tensors.mean(key)
    features = tensors[key]
    entries = list(range(1, features.dim() - 1))
    return features.mean(entries) if entries else features


def require(field: str, what: str, found: Mapping[str, Tensor], wanted: Iterable[str]) -> None:
    """Raise SpecError if an encoder left features out that a head reads."""
    if missing := [name for name in wanted if name not in found]:
        raise SpecError(
            f"the encoder's features have no {field} for the {what} {', '.join(missing)}; they have "
            f"{', '.join(found) or 'none'}.\n  An encoder returns features of all node sets and blocks."
        )
