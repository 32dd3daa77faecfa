"""The layer of neural functional networks: an equivariant affine map, then ReLU."""

from torch import Tensor

from wsl.nn._chain_linear import ChainLinear
from wsl.nn._edge_update import update_edges


class NFNLayer(ChainLinear):
    """:class:`ChainLinear`, then ReLU: an NP-layer or HNP-layer, as its chain says.

    The entries of a matrix are mapped, added to, cut off and averaged in one go.

    Source: Zhou et al. 2023 (arXiv:2302.14040).
    """

    def update(self, matrix: Tensor, weight: Tensor, terms: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        new, (rows, columns) = update_edges(matrix, weight, terms)
        return new, rows, columns

    def activate(self, features: Tensor) -> Tensor:
        return features.relu()
