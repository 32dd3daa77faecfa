"""Encoders that hold a state for every weight, in tensors whose dimensions are permuted axes."""

from collections.abc import Mapping
from functools import partial

from torch import Tensor

from wsl.encoders._base import DeferredTensors, Encoder, WeightFeatures
from wsl.nn import Placement, UniversalEmbedding, UniversalLayout, UniversalLinear, UniversalReadout
from wsl.spec import WeightSpec


class StateEncoder(Encoder):
    """Embeds weights as :class:`wsl.nn.UniversalLayout` lays them out; subclasses implement :meth:`update`.

    Features of nodes are read from the last states by a universal linear layer.

    Args:
        spec: the specification of the weights.
        channels: width of all states, and of the output.
        frequencies: Gaussian Fourier frequencies for every weight.
        ordered: largest size of an axis, not a hidden one, whose indices are copies of the channels.
    """

    def __init__(self, spec: WeightSpec, channels: int, frequencies: int, ordered: int) -> None:
        super().__init__(spec, channels)
        layout = self.layout = UniversalLayout.of(spec, ordered)
        self.embedding = UniversalEmbedding(layout, channels, frequencies)
        self.to_nodes = UniversalLinear(
            layout.inputs, layout.outputs, layout.sizes, channels, channels, layout.families
        )
        self.readout = UniversalReadout(layout, channels, self.embedding.fourier.channels)

    def update(self, states: list[Tensor]) -> list[Tensor]:
        """First states ``(B, *permuted, copies * C)`` of every block to the last ones."""
        raise NotImplementedError

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        entries = self.read(weights)
        blocks, nodes = self.layout.blocks, self.layout.nodes
        values = [place.to_state(entries[key]) for key, place in blocks.items()]
        states = self.update(self.embedding(values))

        def feature(i: int, place: Placement) -> Tensor:
            return self.readout(i, place, states[i], lambda: self.embedding.fourier(values[i]))

        def node_features(place: Placement, state: Tensor) -> Tensor:
            apart = place.from_state(place.apart(state))
            return apart.reshape(len(apart), -1, self.channels)

        return WeightFeatures(
            tensors=DeferredTensors(
                {key: partial(feature, i, place) for i, (key, place) in enumerate(blocks.items())}
            ),
            nodes=dict(zip(nodes, map(node_features, nodes.values(), self.to_nodes(states)), strict=True)),
        )
