"""All affine maps between features of weights that commute with permutations of a chain's axes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from wsl.nn._weight_chain import ChainBlock, WeightChain, total_width


class ChainState(NamedTuple):
    """Features of ``B`` networks, ``C`` channels for each weight, folded as the blocks of a chain say.

    Args:
        matrices: for each matrix ``(B, n, m, multiplicity * C)``.
        axes: for each axis ``(B, n, width * C)``: its blocks side by side, matrices pooled to vectors.
        constants: ``(B, width * C)``: the blocks that no permutation moves.
    """

    matrices: tuple[Tensor, ...]
    axes: tuple[Tensor, ...]
    constants: Tensor


class ChainLinear(nn.Module):
    """Every equivariant affine map from ``F`` to ``C`` channels for each weight of a chain.

    A map from one block to another may pool the axes that the output lacks, broadcast along those that the
    input lacks, and along each one that both carry either keep entries apart or pool and broadcast them. So
    three kinds of products make them all: one of the entries of each matrix, one for each axis of what lies
    along it (pooled matrices, and vectors), and one of what is pooled over all axes. Blocks share what is
    pooled, and no two parameters do the same: the maps of all parameters are a basis of the space, but for
    axes of a single neuron.

    Args:
        chain: the architecture; :func:`weight_chain` says which axes are permuted.
        in_channels, out_channels: ``F`` and ``C``.

    Source: Zhou et al. 2023 (arXiv:2302.14040): the NP-layer (eq. 3) where all axes are permuted, and the
    HNP-layer (appendix) where hidden ones are, then the same as the DWS-layer of Navon et al. 2023
    (arXiv:2301.12780, Table 2). With ``k`` the multiplicities of a matrix, of all that an axis carries, and
    of all blocks: ``F C (sum_matrices k^2 + sum_axes k^2 + k^2) + C k`` parameters.
    """

    def __init__(self, chain: WeightChain, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.chain = chain
        self.in_channels, self.out_channels = in_channels, out_channels

        def product(blocks: Sequence[ChainBlock]) -> nn.Parameter:
            width = total_width(blocks)
            return nn.Parameter(torch.empty(width * in_channels, width * out_channels))

        self.matrices = nn.ParameterList(product([block]) for block in chain.matrices)
        self.axes = nn.ParameterList(product(axis.blocks) for axis in chain.axes)
        self.whole = product(chain.blocks)
        self.bias = nn.Parameter(torch.empty(self.whole.shape[1]))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within one over the root of the number of inputs of an output, in all products together."""
        chain, channels = self.chain, self.in_channels
        widths = {axis.name: total_width(axis.blocks) for axis in chain.axes}
        fans = {
            block.key: total_width(chain.blocks)
            + sum(widths[name] for name in block.axes)
            + (block.multiplicity if len(block.axes) == 2 else 0)
            for block in chain.blocks
        }
        filled = [
            *((weight, [block]) for weight, block in zip(self.matrices, chain.matrices, strict=True)),
            *((weight, axis.blocks) for weight, axis in zip(self.axes, chain.axes, strict=True)),
            (self.whole, chain.blocks),
            (self.bias, chain.blocks),
        ]
        with torch.no_grad():
            for weight, blocks in filled:
                sizes = [block.multiplicity * self.out_channels for block in blocks]
                for part, block in zip(weight.split(sizes, dim=-1), blocks, strict=True):
                    bound = (fans[block.key] * channels) ** -0.5
                    nn.init.uniform_(part, -bound, bound)

    def gather(self, features: Mapping[str, Tensor]) -> ChainState:
        """Features ``(B, *view, F)`` of all blocks, folded and pooled as :meth:`forward` reads them."""
        folded = {block.key: block.fold(features[block.key]) for block in self.chain.blocks}
        axes = []
        for axis in self.chain.axes:
            parts = [folded[block.key] for block in axis.blocks]
            for i, block in enumerate(axis.blocks):
                if len(block.axes) == 2:
                    parts[i] = self.pool(parts[i], 2 - block.axes.index(axis.name))
            axes.append(torch.cat(parts, dim=-1))
        like = next(iter(folded.values()))
        constants = [folded[block.key] for block in self.chain.constants]
        return ChainState(
            tuple(folded[block.key] for block in self.chain.matrices),
            tuple(axes),
            torch.cat(constants, dim=-1) if constants else like.new_zeros(len(like), 0),
        )

    def forward(self, state: ChainState) -> ChainState:
        """Map features of ``F`` channels to ``C``."""
        chain = self.chain
        shares, constants = self._whole(state)
        terms: list[Tensor] = []
        vectors: list[Tensor] = []
        ends: list[dict[int, Tensor]] = []
        for axis, weight, features, share in zip(chain.axes, self.axes, state.axes, shares, strict=True):
            counted = weight.shape[1] - share.shape[-1]
            term = features @ weight + nn.functional.pad(share, (counted, 0)).unsqueeze(1)
            sizes = [chain.matrices[i].multiplicity * self.out_channels for i in axis.matrices]
            *parts, rest = term.split([*sizes, weight.shape[1] - sum(sizes)], dim=-1)
            ends.append(dict(zip(axis.matrices, parts, strict=True)))
            vectors.append(self.activate(rest))
        matrices = []
        for i, (rows, columns) in enumerate(chain.ends):
            terms = [ends[rows][i], ends[columns][i]]
            new, ends[rows][i], ends[columns][i] = self.update(state.matrices[i], self.matrices[i], terms)
            matrices.append(new)
        axes = [torch.cat([*pooled.values(), rest], -1) for pooled, rest in zip(ends, vectors, strict=True)]
        return ChainState(tuple(matrices), tuple(axes), self.activate(constants))

    def _whole(self, state: ChainState) -> tuple[list[Tensor], Tensor]:
        """What is pooled over all axes adds to the fresh blocks of each axis, and to the constants."""
        pooled = []
        for axis, features in zip(self.chain.axes, state.axes, strict=True):
            counted = total_width(axis.blocks[: axis.counted]) * self.in_channels
            pooled.append(self.pool(features[..., counted:], 1))
        mapped = torch.cat([*pooled, state.constants], dim=-1) @ self.whole + self.bias
        sizes = [total_width(axis.fresh) * self.out_channels for axis in self.chain.axes]
        *shares, constants = mapped.split([*sizes, mapped.shape[-1] - sum(sizes)], dim=-1)
        return shares, constants

    def update(self, matrix: Tensor, weight: Tensor, terms: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The new entries of a matrix, and what is pooled of them for its rows and for its columns."""
        new = self.activate(matrix @ weight + terms[0].unsqueeze(2) + terms[1].unsqueeze(1))
        return new, self.pool(new, 2), self.pool(new, 1)

    def activate(self, features: Tensor) -> Tensor:
        """What follows the map: nothing; subclasses differ."""
        return features

    def pool(self, features: Tensor, dim: int) -> Tensor:
        """Pool along an axis: by the mean; subclasses differ."""
        return features.mean(dim)

    def unfold(self, state: ChainState) -> dict[str, Tensor]:
        """The inverse of :meth:`gather` after :meth:`forward`: ``(B, *view, C)`` of all blocks."""
        folded = {block.key: x for block, x in zip(self.chain.matrices, state.matrices, strict=True)}
        pieces = [(axis.blocks, x) for axis, x in zip(self.chain.axes, state.axes, strict=True)]
        for blocks, features in (*pieces, (self.chain.constants, state.constants)):
            parts = features.split([block.multiplicity * self.out_channels for block in blocks], dim=-1)
            for block, part in zip(blocks, parts, strict=True):
                folded.setdefault(block.key, part)
        return {block.key: block.unfold(folded[block.key]) for block in self.chain.blocks}
