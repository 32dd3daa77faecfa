"""The baseline of statistics: moments and quantiles of every block, and an MLP."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from wsl.encoders._base import Encoder, WeightFeatures
from wsl.encoders._features import broadcast_features
from wsl.graph import graph_layout
from wsl.nn import MLP
from wsl.spec import SpecError, WeightSpec

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


class StatNet(Encoder):
    """An MLP on mean, variance and quantiles of every block: invariant, and blind to all but histograms.

    A network becomes one vector. Its features of weights and of neurons are that vector, broadcast: exactly
    equivariant, but the same for all, so an equivariant head can only shift each block as a whole.

    Accepts every specification; the parameters depend on it, by the number of its blocks. Kernel positions
    are not told apart.

    Args:
        spec: the specification of the weights.
        channels: width of the output.
        hidden: width of the hidden layers.
        layers: number of hidden layers.

    Raises:
        SpecError: there are no weights.
        ValueError: no channels, or a negative number of layers.

    Source: Unterthiner et al. 2020, section 3.2 (arXiv:2002.11448): mean, variance and the quantiles
    0, 25, 50, 75, 100 % of each layer's kernel and bias. Deviates: blocks for tensors, which are finer where
    a tensor is packed; standardised weights.
    """

    def __init__(self, spec: WeightSpec, channels: int = 64, layers: int = 2, *, hidden: int = 256) -> None:
        super().__init__(spec, channels)
        check_has_weights(spec)
        self.layout = graph_layout(spec)
        self.layers = MLP(len(spec.blocks) * (2 + len(QUANTILES)), hidden, layers, channels)

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        blocks = self.read(weights)
        statistics = torch.cat([block_statistics(block) for block in blocks.values()], dim=1)
        return broadcast_features(self.layout, self.layers(statistics))


def check_has_weights(spec: WeightSpec) -> None:
    """Raise SpecError for an architecture without weights."""
    if not spec.blocks:
        raise SpecError("the architecture has no weights, so there are no statistics of them to read.")


def block_statistics(block: Tensor) -> Tensor:
    """Mean, variance (of the entries, biased) and quantiles of each network's block: ``(B, 7)``."""
    values = block.reshape(len(block), math.prod(block.shape[1:])).sort(dim=1).values
    count = values.shape[1]
    mean = values.mean(1, keepdim=True)
    variance = (values - mean).square().mean(1, keepdim=True)
    ranks = torch.tensor(QUANTILES, dtype=torch.float64) * (count - 1)
    below = ranks.floor().long()
    share = (ranks - below).to(values)
    low, high = values[:, below], values[:, (below + 1).clamp(max=count - 1)]
    return torch.cat([mean, variance, low + share * (high - low)], dim=1)
