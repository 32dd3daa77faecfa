"""Encoders that hold a state for every weight, in tensors whose dimensions are permuted axes."""

import math
from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor
from torch.utils.checkpoint import checkpoint as recomputed

from wsl.encoders._base import DeferredTensors, Encoder, WeightFeatures
from wsl.nn import Placement, UniversalEmbedding, UniversalLayout, UniversalLinear, UniversalReadout
from wsl.spec import WeightSpec


class StateEncoder(Encoder):
    """Embeds weights as :class:`wsl.nn.UniversalLayout` lays them out; subclasses implement :meth:`update`.

    Features of nodes are read from the last states by a universal linear layer. Subclasses send everything
    that is large through :meth:`step`.

    Args:
        spec: the specification of the weights.
        channels: width of all states, and of the output.
        frequencies: Gaussian Fourier frequencies for every weight.
        ordered: largest size of an axis, not a hidden one, whose indices are copies of the channels.
        checkpoint: compute the steps again in the backward pass, and keep only what goes in.
    """

    def __init__(
        self, spec: WeightSpec, channels: int, frequencies: int, ordered: int, checkpoint: bool
    ) -> None:
        super().__init__(spec, channels)
        self.checkpoint = checkpoint
        layout = self.layout = UniversalLayout.of(spec, ordered)
        self.embedding = UniversalEmbedding(layout, channels, frequencies)
        self.to_nodes = UniversalLinear(
            layout.inputs, layout.outputs, layout.sizes, channels, channels, layout.families
        )
        self.readout = UniversalReadout(layout, channels, self.embedding.fourier.channels)

    def step(self, function: Callable[[list[Tensor]], list[Tensor]], states: list[Tensor]) -> list[Tensor]:
        """``function(states)``, with or without checkpointing."""
        if not self.checkpoint:
            return function(states)
        outputs: list[Tensor] = recomputed(function, states, use_reentrant=False)
        return outputs

    def update(self, states: list[Tensor]) -> list[Tensor]:
        """First states ``(B, *permuted, copies * C)`` of every block to the last ones."""
        raise NotImplementedError

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        entries = self.read(weights)
        blocks, nodes = self.layout.blocks, self.layout.nodes
        values = [place.to_state(entries[key]) for key, place in blocks.items()]
        states = self.update(self.step(self.embedding, values))

        def feature(i: int, place: Placement) -> Tensor:
            return self.readout(i, place, states[i], lambda: self.embedding.fourier(values[i]))

        def node_features(place: Placement, state: Tensor) -> Tensor:
            apart = place.from_state(place.apart(state))
            return apart.reshape(len(apart), math.prod(place.view), self.channels)

        return WeightFeatures(
            tensors=DeferredTensors(
                {key: partial(feature, i, place) for i, (key, place) in enumerate(blocks.items())}
            ),
            nodes=dict(zip(nodes, map(node_features, nodes.values(), self.to_nodes(states)), strict=True)),
        )
