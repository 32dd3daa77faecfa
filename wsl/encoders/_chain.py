"""What the encoders of feedforward networks share: a stack of equivariant layers on a chain of matrices."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recomputed

from wsl.encoders._base import Encoder, WeightFeatures
from wsl.nn import ChainLinear, ChainState
from wsl.spec import WeightSpec


class ChainEncoder(Encoder):
    """Base of encoders that are a stack of :class:`wsl.nn.ChainLinear` layers.

    The features of a neuron are the mean of all that its axis carries. Subclasses implement :meth:`embed`,
    and give the layers to ``__init__``.

    Args:
        spec: the specification of the weights.
        layers: at least one, from the channels of :meth:`embed` to those of the output.
        checkpoint: compute every layer, the first one from the weights, again in the backward pass.
    """

    def __init__(self, spec: WeightSpec, layers: Sequence[ChainLinear], checkpoint: bool) -> None:
        super().__init__(spec, layers[-1].out_channels)
        self.layers = nn.ModuleList(layers)
        self.checkpoint = checkpoint

    def embed(self, key: str, block: Tensor) -> Tensor:
        """Standardised weights ``(B, *view)`` of the block ``key`` to features ``(B, *view, F)``."""
        raise NotImplementedError

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        layers = cast(Sequence[ChainLinear], self.layers)
        state = self._step(self._first, self.read(weights))
        for layer in layers[1:]:
            state = self._step(layer, state)
        features = layers[-1].unfold(state)
        neurons = {
            axis.name: joined.unflatten(-1, (-1, self.channels)).mean(-2)
            for axis, joined in zip(layers[-1].chain.axes, state.axes, strict=True)
        }
        for name in self.spec.axes:
            if name not in neurons:
                neurons[name] = self._in_place(name, features)
        nodes = {nodes.name: neurons[nodes.axes[0]] for nodes in self.spec.topology.nodes}
        return WeightFeatures(tensors=features, nodes=nodes)

    def _first(self, blocks: Mapping[str, Tensor]) -> ChainState:
        """The first layer, of the features of standardised weights."""
        first = cast(ChainLinear, self.layers[0])
        state: ChainState = first(first.gather({key: self.embed(key, b) for key, b in blocks.items()}))
        return state

    def _step(self, function: Callable[[Any], ChainState], given: Any) -> ChainState:
        """``function(given)``, with or without checkpointing."""
        if not self.checkpoint:
            return function(given)
        state: ChainState = recomputed(function, given, use_reentrant=False)
        return state

    def _in_place(self, name: str, features: Mapping[str, Tensor]) -> Tensor:
        """Features ``(B, n, C)`` of an axis that the layers do not permute: the mean over blocks with it."""
        means = []
        for ref in self.spec.blocks:
            if name in ref.block.axes:
                moved = features[ref.key].movedim(ref.block.axes.index(name) + 1, 1)
                means.append(moved.flatten(2, -2).mean(2) if moved.dim() > 3 else moved)
        return torch.stack(means).mean(0)


def check_layers(family: str, channels: int, layers: int) -> None:
    """Refuse a stack without layers or channels."""
    if channels < 1:
        raise ValueError(f"an encoder needs at least one channel, got channels={channels}.")
    if layers < 1:
        raise ValueError(f"{family} needs at least one layer, got layers={layers}.")
