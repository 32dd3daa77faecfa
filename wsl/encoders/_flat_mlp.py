"""The baseline without symmetry: an MLP on the flattened weights."""

from collections.abc import Mapping

import torch
from torch import Tensor

from wsl.encoders._base import Encoder, WeightFeatures
from wsl.encoders._features import broadcast_features
from wsl.graph import graph_layout
from wsl.nn import MLP
from wsl.spec import WeightSpec


class FlatMLP(Encoder):
    """An MLP on the concatenated weights: NOT equivariant, and bound to one architecture.

    The baseline that other encoders must beat. Its features are one vector for each network, shared by all
    weights and neurons: enough for an invariant head, and all that an MLP honestly has.

    Args:
        spec: the specification of the weights; the parameters depend on it.
        channels: width of the output.
        hidden: width of the hidden layers.
        layers: number of hidden layers.
        dropout: rate after each hidden layer.
    """

    def __init__(
        self, spec: WeightSpec, channels: int = 64, hidden: int = 256, layers: int = 2, dropout: float = 0.0
    ) -> None:
        super().__init__(spec, channels)
        self.layout = graph_layout(spec)
        self.layers = MLP(spec.parameter_count, hidden, layers, channels, dropout)

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        blocks = self.read(weights)
        vector = self.layers(torch.cat([block.unsqueeze(1).flatten(1) for block in blocks.values()], dim=1))
        return broadcast_features(self.layout, vector)
