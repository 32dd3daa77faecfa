"""The layer of DWSNets: blocks for all pairs of weights and biases, pooled by the maximum."""

import torch
from torch import Tensor, nn

from wsl.nn._chain_linear import ChainLinear
from wsl.nn._weight_chain import WeightChain


class DWSLayer(ChainLinear):
    """The blocks of a DWS-layer with maxima for sums; then a norm over the channels of each weight, and ReLU.

    Source: Navon et al. 2023 (arXiv:2301.12780), Table 2, and the maxima of its experiments. Deviates: blocks
    share what is pooled, are merged where they read the same, and start as :class:`ChainLinear` says; a layer
    norm stands for the batch norm, which would make a network's features depend on others in the batch.
    """

    def __init__(self, chain: WeightChain, in_channels: int, out_channels: int) -> None:
        super().__init__(chain, in_channels, out_channels)
        self.norm = nn.LayerNorm(out_channels)

    def activate(self, features: Tensor) -> Tensor:
        apart = features.unflatten(-1, (features.shape[-1] // self.out_channels, self.out_channels))
        normal: Tensor = self.norm(apart)
        return normal.relu().reshape(features.shape)

    def pool(self, features: Tensor, dim: int) -> Tensor:
        return torch.amax(features, dim)
