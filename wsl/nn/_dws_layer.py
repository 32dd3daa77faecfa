"""The layer of DWSNets: blocks for all pairs of weights and biases, pooled by the maximum."""

import torch
from torch import Tensor, nn

from wsl.nn._chain_linear import ChainLinear
from wsl.nn._dws_update import normalise, update_matrix
from wsl.nn._weight_chain import WeightChain


class DWSLayer(ChainLinear):
    """The blocks of a DWS-layer with maxima for sums; then a norm over the channels of each weight, and ReLU.

    Source: Navon et al. 2023 (arXiv:2301.12780), Table 2, and the maxima of its experiments. Deviates: blocks
    share what is pooled, are merged where they read the same, and start as :class:`ChainLinear` says; a layer
    norm stands for the batch norm, which would make a network's features depend on others in the batch.
    """

    def __init__(self, chain: WeightChain, in_channels: int, out_channels: int) -> None:
        super().__init__(chain, in_channels, out_channels)
        self.gain = nn.Parameter(torch.ones(out_channels))
        self.offset = nn.Parameter(torch.zeros(out_channels))

    def update(self, matrix: Tensor, weight: Tensor, terms: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        return update_matrix(matrix, weight, terms, self.gain, self.offset)

    def activate(self, features: Tensor) -> Tensor:
        return normalise(features, self.gain, self.offset)

    def pool(self, features: Tensor, dim: int) -> Tensor:
        return torch.amax(features, dim)
