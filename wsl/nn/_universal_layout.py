"""How blocks and node sets become tensors of states for universal layers, and weights their first states."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from wsl.nn._fourier import GaussianFourierFeatures
from wsl.nn._universal_terms import Signature
from wsl.spec import WeightSpec


@dataclass(frozen=True)
class Placement:
    """Where the dimensions of a block (or of a node set) go in a tensor of states.

    Args:
        view: their sizes.
        axes: the axis of every permuted dimension.
        permuted: dimensions that are dimensions of the states.
        copies: dimensions whose indices have states of their own, side by side in the channels.
        positions: dimensions whose indices share a state.
    """

    view: tuple[int, ...]
    axes: tuple[str, ...]
    permuted: tuple[int, ...]
    copies: tuple[int, ...]
    positions: tuple[int, ...]

    @cached_property
    def signature(self) -> Signature:
        """What universal layers have to know."""
        return Signature(self.axes, self._count(self.copies))

    @cached_property
    def position_count(self) -> int:
        """How many entries share a state."""
        return self._count(self.positions)

    def _count(self, dims: tuple[int, ...]) -> int:
        return math.prod(self.view[dim] for dim in dims)

    @property
    def _order(self) -> tuple[int, ...]:
        return self.permuted + self.copies + self.positions

    def to_state(self, values: Tensor) -> Tensor:
        """Reorder ``(B, *view)`` to ``(B, *permuted, copies, K)``, with ``K`` positions."""
        moved = values.permute(0, *(dim + 1 for dim in self._order))
        return moved.reshape(
            *moved.shape[: len(self.permuted) + 1], self.signature.copies, self.position_count
        )

    def apart(self, state: Tensor) -> Tensor:
        """``(B, *permuted, copies * C)`` to ``(B, *permuted, copies, 1, C)``."""
        return state.unflatten(-1, (self.signature.copies, 1, -1))

    def from_state(self, values: Tensor) -> Tensor:
        """The inverse, with channels: ``(B, *permuted, copies, K, C)`` to ``(B, *view, C)``."""
        apart = values.reshape(len(values), *(self.view[dim] for dim in self._order), values.shape[-1])
        return apart.permute(0, *(self._order.index(dim) + 1 for dim in range(len(self.view))), -1)


@dataclass(frozen=True)
class UniversalLayout:
    """The tensors of states of an architecture.

    Hidden axes are permuted. An axis that is not hidden is folded into copies of the channels if it has at
    most ``ordered`` indices and no family is over it: universal layers then map each pair of its indices by a
    matrix of their own. Larger ones are treated as if they were permuted, and :class:`UniversalEmbedding`
    tells their indices apart. Kernel positions share a state.

    Args:
        blocks: by block key.
        nodes: by node set.
        sizes: the size of every axis.
        families: for axes that are families, the axes that they are over.
        indexed: axes that are treated as if they were permuted.
    """

    blocks: Mapping[str, Placement]
    nodes: Mapping[str, Placement]
    sizes: Mapping[str, int]
    families: Mapping[str, tuple[str, ...]]
    indexed: tuple[str, ...]

    @classmethod
    def of(cls, spec: WeightSpec, ordered: int) -> "UniversalLayout":
        """The layout for a specification."""
        over = {name for axis in spec.axes.values() for name in axis.family}
        fixed = {name: axis.size for name, axis in spec.axes.items() if axis.kind != "hidden"}
        folded = {name for name, size in fixed.items() if size <= ordered and name not in over}
        sizes = {name: axis.size for name, axis in spec.axes.items()}

        def place(axes: Sequence[str], view: Sequence[int]) -> Placement:
            dims = range(len(axes))
            copies = tuple(dim for dim in dims if axes[dim] in folded)
            positions = tuple(dim for dim in dims if axes[dim] not in sizes)
            permuted = tuple(dim for dim in dims if dim not in copies + positions)
            return Placement(tuple(view), tuple(axes[dim] for dim in permuted), permuted, copies, positions)

        return cls(
            blocks={ref.key: place(ref.block.axes, ref.block.view) for ref in spec.blocks},
            nodes={
                node.name: place(node.axes, [sizes[a] for a in node.axes]) for node in spec.topology.nodes
            },
            sizes=sizes,
            families={name: axis.family for name, axis in spec.axes.items() if axis.family},
            indexed=tuple(name for name in fixed if name not in folded),
        )

    @property
    def inputs(self) -> list[Signature]:
        """The signatures of all blocks."""
        return [place.signature for place in self.blocks.values()]

    @property
    def outputs(self) -> list[Signature]:
        """The signatures of all node sets."""
        return [place.signature for place in self.nodes.values()]


class PositionMix(nn.Module):
    """For every block a gain for each channel at each kernel position; ones where there is one position."""

    def __init__(self, layout: UniversalLayout, channels: int) -> None:
        super().__init__()
        counts = {key: place.position_count for key, place in enumerate(layout.blocks.values())}
        self.gains = nn.ParameterDict(
            {str(key): torch.randn(count, channels) for key, count in counts.items() if count > 1}
        )

    def forward(self, block: int) -> Tensor | None:
        """Gains ``(K, channels)`` of a block, or ``None`` for ones."""
        return self.gains.get(str(block), None)


class UniversalEmbedding(nn.Module):
    """Weights to the first states: Fourier features, and one linear map a block.

    With ``f_p`` the features of the weight at position ``p``: ``relu(sum_p gain_p * (W f_p) / sqrt(K) + b)``,
    with ``b`` by copy. Axes that are treated as if they were permuted add a learned embedding of each index.

    Shapes: a list of ``(B, *permuted, copies, K)`` to a list of ``(B, *permuted, copies * channels)``.
    """

    def __init__(self, layout: UniversalLayout, channels: int, frequencies: int) -> None:
        super().__init__()
        self.fourier = GaussianFourierFeatures(frequencies)
        features = self.fourier.channels
        self.axes = [signature.axes for signature in layout.inputs]
        self.indexed = layout.indexed
        self.weight = nn.Parameter(torch.empty(len(layout.blocks), channels, features))
        nn.init.uniform_(self.weight, -(features**-0.5), features**-0.5)
        self.bias = nn.ParameterList(torch.randn(s.copies, channels) / 2 for s in layout.inputs)
        self.positions = PositionMix(layout, channels)
        self.index = nn.ParameterList(
            torch.randn(layout.sizes[axis], channels) / 2 for axis in layout.indexed
        )

    def forward(self, values: Sequence[Tensor]) -> list[Tensor]:
        return [self._embed(i, value).relu().flatten(-2) for i, value in enumerate(values)]

    def _embed(self, block: int, values: Tensor) -> Tensor:
        weight, gains = self.weight[block], self.positions(block)
        if gains is not None:
            weight = (weight.unsqueeze(1) * gains.T.unsqueeze(-1)).flatten(1) / math.sqrt(len(gains))
        state = self.fourier(values).flatten(-2) @ weight.T + self.bias[block]
        axes = self.axes[block]
        for dim, axis in enumerate(axes):
            if axis in self.indexed:
                index = self.index[self.indexed.index(axis)]
                shape = [1] * (len(axes) + 1) + [index.shape[1]]
                shape[dim] = len(index)
                state = state + index.reshape(shape)
        return state


class UniversalReadout(nn.Module):
    """The state of a block to features of its entries.

    Entries at different kernel positions share a state; they differ by gains and by their own Fourier
    features: ``gain_p * state + W f_p``. An entry with a state of its own has its features there.
    """

    def __init__(self, layout: UniversalLayout, channels: int, features: int) -> None:
        super().__init__()
        self.positions = PositionMix(layout, channels)
        self.weight = nn.ParameterDict({key: torch.empty(channels, features) for key in self.positions.gains})
        for weight in self.weight.values():
            nn.init.uniform_(weight, -(features**-0.5), features**-0.5)

    def forward(self, block: int, place: Placement, state: Tensor, features: Callable[[], Tensor]) -> Tensor:
        """States ``(B, *permuted, copies * C)`` to ``(B, *view, C)``.

        ``features`` makes the Fourier features ``(B, *permuted, copies, K, F)`` of the block.
        """
        state, gains = place.apart(state), self.positions(block)
        if gains is not None:
            state = state * gains + features() @ self.weight[str(block)].T
        return place.from_state(state)
