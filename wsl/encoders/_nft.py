"""The neural functional transformer: attention among the rows and columns of weight matrices."""

import math
from functools import partial

import torch
from torch import Tensor, nn

from wsl.encoders._states import StateEncoder
from wsl.nn import WeightAttention, normalise_channels
from wsl.spec import WeightSpec


class NFT(StateEncoder):
    """The neural functional transformer.

    Every weight has a state. Along each axis, the vectors of states that share the axis attend to one
    another: the rows of a weight matrix, the columns of the next one, and the bias between them. Means of
    tensors attend to one another too (:class:`wsl.nn.WeightAttention`).

    Accepts any specification. Inputs, outputs and fixed axes are treated as hidden ones, and told apart by a
    learned embedding of every index in the first states; so are tensors. Kernel positions are channels of the
    first states and share states after that. The attention layers are the same for all specifications; the
    embedding, and the layer that reads features of nodes from the last states, depend on it.

    Attention takes time in the square of the width of a network: not for wide ones.

    Args:
        spec: the specification of the weights.
        channels: width of all states, and of the output.
        layers: number of layers.
        heads: number of attention heads; divides ``channels``.
        frequencies: Gaussian Fourier frequencies for every weight.
        checkpoint: compute every layer again in the backward pass: the same results, slower, in less memory.

    Raises:
        SpecError: a block carries one axis more than 4 times.
        ValueError: no channels, ``heads`` does not divide them, or a negative number of layers.

    Source: Zhou et al. 2023 (arXiv:2305.13546). Deviates: any specification, as the layers say; features of
    nodes are read by a layer of a universal neural functional (arXiv:2402.05232).
    """

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 32,
        layers: int = 4,
        *,
        heads: int = 4,
        frequencies: int = 16,
        checkpoint: bool = False,
    ) -> None:
        super().__init__(spec, channels, frequencies, ordered=0, checkpoint=checkpoint)
        if layers < 0:
            raise ValueError(f"a neural functional transformer needs at least 0 layers, got layers={layers}.")
        tensors = [tensor.axes for tensor in self.layout.inputs]
        sizes, families = self.layout.sizes, self.layout.families
        self.layers = nn.ModuleList(
            WeightAttention(tensors, sizes, channels, heads, families) for _ in range(layers)
        )
        self.gain = nn.Parameter(torch.ones(channels, 1))
        self.shift = nn.Parameter(torch.zeros(channels, 1))

    def update(self, states: list[Tensor]) -> list[Tensor]:
        """Attention among all states, which are laid side by side: ``(B, *permuted, C)`` to the same."""
        counts = [math.prod(state.shape[1:-1]) for state in states]
        flat = [
            state.reshape(len(state), n, state.shape[-1]).mT for state, n in zip(states, counts, strict=True)
        ]
        joined = [torch.cat(flat, dim=-1)]
        for layer in self.layers:
            joined = self.step(partial(_single, layer), joined)
        parts = (normalise_channels(joined[0]) * self.gain + self.shift).split(counts, dim=-1)
        return [part.mT.reshape(state.shape) for part, state in zip(parts, states, strict=True)]


def _single(layer: nn.Module, states: list[Tensor]) -> list[Tensor]:
    return [layer(states[0])]
