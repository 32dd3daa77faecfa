"""The baseline of statistics for any architecture: what each block's are, averaged over the blocks."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from wsl.encoders._any_spec import AnySpecEncoder
from wsl.encoders._base import WeightFeatures
from wsl.encoders._features import broadcast_features
from wsl.encoders._stat_net import QUANTILES, block_statistics, check_has_weights
from wsl.nn import BLOCK_FEATURES, MLP, block_features
from wsl.spec import WeightSpec


class BlockStatNet(AnySpecEncoder):
    """:class:`wsl.encoders.StatNet` for any number of architectures: invariant, blind to all but histograms.

    One MLP reads the mean, variance and quantiles of every block, and what the specification says of it: its
    role, and the depth, activation and size of the node sets that it lies on or between. Its outputs are
    averaged over the blocks, and a second MLP makes a vector of the network, which is broadcast as the
    features of all weights and neurons. No learnable parameter depends on the specification:
    :meth:`for_spec` reads other architectures with the same ones.

    Args:
        spec: the specification of the weights.
        channels: width of the output.
        layers: number of hidden layers of both MLPs.
        hidden: their width.

    Raises:
        SpecError: there are no weights.
        ValueError: no channels, or a negative number of layers.

    Source: the statistics of Unterthiner et al. 2020, section 3.2 (arXiv:2002.11448), pooled as sets are by
    Zaheer et al. 2017 (arXiv:1703.06114).
    """

    def __init__(self, spec: WeightSpec, channels: int = 64, layers: int = 2, *, hidden: int = 256) -> None:
        super().__init__(spec, channels, layers, None)
        check_has_weights(spec)
        self.block_layers = MLP(2 + len(QUANTILES) + BLOCK_FEATURES, hidden, layers, hidden)
        self.network_layers = nn.Sequential(nn.ReLU(), MLP(hidden, hidden, layers, channels))

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        blocks = self.read(weights)
        statistics = torch.stack([block_statistics(block) for block in blocks.values()], dim=1)
        constants = block_features(self.layout, statistics.dtype, statistics.device)
        constants = constants.expand(len(statistics), -1, -1)
        described = self.block_layers(torch.cat([statistics, constants], dim=-1))
        return broadcast_features(self.layout, self.network_layers(described.mean(1)))
