"""Neural functional networks as update networks, for MLPs and plain CNNs."""

import copy
from typing import Self

import torch
from torch import Tensor

from wsl.learnopt._entries import Entries
from wsl.learnopt.networks._affine import affine_stack, run_affine
from wsl.learnopt.networks._base import SAME_LAYERS, UpdateNetwork, other_architecture, shrink
from wsl.nn import ChainLinear, WeightChain, weight_chain
from wsl.spec import WeightSpec


class NFN(UpdateNetwork):
    """An MLP of every weight's own features, then an NP-layer: inputs and outputs are permuted too.

    Kernel positions are channels, each with maps of its own. The layer reads all blocks of the specification,
    running statistics as zeros.

    Args:
        spec: a chain of linear or convolutional layers; the parameters depend on its tensors and kernels.
        entry_channels, shared_channels: of the features.
        hidden: width of the MLP.
        layers: number of hidden layers of the MLP, at least one.
        scale: of the output's first parameters, times what the layer starts with.

    Raises:
        SpecError: another topology (families, repeated axes, residual connections, branches).

    Source: Zhou et al. 2023 (arXiv:2302.14040), eq. 3; in an optimizer Zhou et al. 2024 (arXiv:2402.05232).
    """

    stacked = False

    def __init__(
        self,
        spec: WeightSpec,
        entry_channels: int,
        shared_channels: int,
        hidden: int = 32,
        layers: int = 3,
        scale: float = 0.1,
    ) -> None:
        super().__init__()
        self.entries = Entries(spec)
        self.hidden = affine_stack(entry_channels + shared_channels, [hidden] * layers)
        self.layer = ChainLinear(_chain(spec), hidden, 1)
        shrink(self.layer, scale)

    def forward(self, entries: Tensor, shared: Tensor) -> Tensor:
        keys = [ref.key for ref in self.entries.blocks]
        hidden = run_affine(entries, shared, list(self.hidden))
        found = dict(zip(keys, self.entries.views(hidden), strict=True))
        for ref in self.entries.spec.blocks:
            if ref.key not in found:
                found[ref.key] = entries.new_zeros(len(entries), *ref.block.view, hidden.shape[-1])
        out = self.layer.unfold(self.layer(self.layer.gather(found)))
        return torch.cat([out[key].flatten(1) for key in keys], dim=1)

    def on(self, spec: WeightSpec) -> Self:
        chain = _chain(spec)
        if _structure(chain) != _structure(self.layer.chain):
            raise other_architecture(self, self.entries.spec, spec, SAME_LAYERS)
        twin = copy.copy(self)
        twin._modules = self._modules.copy()
        twin.entries = Entries(spec)
        twin.layer = copy.copy(self.layer)
        twin.layer.chain = chain
        return twin


def _chain(spec: WeightSpec) -> WeightChain:
    return weight_chain(spec, all_axes=True)


def _structure(chain: WeightChain) -> tuple[object, ...]:
    """What the shapes of the parameters of a layer on ``chain``, and their meaning, depend on: no names."""
    number = {ref.key: i for i, ref in enumerate(chain.spec.blocks)}
    blocks = [(number[block.key], block.axes, block.rest) for block in chain.blocks]
    return blocks, [(axis.name, axis.matrices, axis.counted) for axis in chain.axes]
