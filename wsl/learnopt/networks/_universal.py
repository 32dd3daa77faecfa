"""Universal neural functionals as update networks."""

import copy
from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from wsl.learnopt._entries import Entries
from wsl.learnopt.networks._affine import affine_stack, by_lanes, run_affine
from wsl.learnopt.networks._base import SAME_LAYERS, UpdateNetwork, other_architecture, shrink
from wsl.nn import NarrowUniversal, Signature, UniversalLinear
from wsl.spec import BlockRef, WeightSpec


class UNF(UpdateNetwork):
    """An MLP of every weight's own features, then a map that commutes with permutations of all axes.

    Inputs and outputs are permuted as hidden neurons are, kernel positions as an axis of each block's own. So
    there are fewer parameters than in :class:`wsl.encoders.UniversalNeuralFunctional`, which sees weights
    alone and needs to know which they are.

    Args:
        spec: the specification of the weights; the parameters depend on its tensors, but not on any size.
        entry_channels, shared_channels: of the features.
        hidden: width of the MLP.
        layers: number of layers of the MLP, at least one.
        scale: of the output's first parameters, times what a universal layer starts with.

    Raises:
        SpecError: a block carries one axis more than 4 times.

    Source: Zhou et al. 2024 (arXiv:2402.05232, appendix C.1).
    """

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
        self.places = [_place(ref) for ref in self.entries.blocks]
        self.hidden = affine_stack(entry_channels + shared_channels, [hidden] * layers)
        self.layer = _layer(spec, self.places, hidden)
        self.narrow = NarrowUniversal(self.layer)
        shrink(self.layer, scale)

    def forward(self, entries: Tensor, shared: Tensor) -> Tensor:
        weights = [*self.hidden, *self.narrow.columns(list(self.layer.weights))]
        mapped = by_lanes(self._map, self.hidden[-1].shape[-1], entries, shared, weights)
        states = [place.to_state(block) for place, block in zip(self.places, mapped, strict=True)]
        states = self.narrow.combine(states, self.layer.bias)
        out = [place.from_state(state) for place, state in zip(self.places, states, strict=True)]
        return torch.cat(out, dim=1)

    def _map(self, entries: Tensor, shared: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
        """What the universal layer averages and adds up, ``(L, columns, n)`` for each block."""
        hidden = run_affine(entries, shared, weights[: len(self.hidden)])
        parts = hidden.mT.split(self.entries.sizes, dim=-1)
        columns = weights[len(self.hidden) :]
        return [w.expand(len(x), -1, -1) @ x for w, x in zip(columns, parts, strict=True)]

    def on(self, spec: WeightSpec) -> Self:
        entries = Entries(spec)
        places = [_place(ref) for ref in entries.blocks]
        if _structure(spec, places) != _structure(self.entries.spec, self.places):
            raise other_architecture(self, self.entries.spec, spec, SAME_LAYERS)
        twin = copy.copy(self)
        twin._modules = self._modules.copy()
        twin.entries, twin.places = entries, places
        with torch.device("meta"):  # nothing is drawn
            twin.layer = _layer(spec, places, self.layer.in_channels)
        twin.layer._modules, twin.layer._parameters = self.layer._modules, self.layer._parameters
        twin.narrow = NarrowUniversal(twin.layer)
        return twin


class _Place(NamedTuple):
    """How the dimensions of a block become those of a tensor of states.

    Args:
        view: their sizes.
        order: those of neurons first, then kernel positions.
        axes, sizes: of the tensor of states; all positions are one axis.
        positions: whether there are any.
    """

    view: tuple[int, ...]
    order: tuple[int, ...]
    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    positions: bool

    def to_state(self, block: Tensor) -> Tensor:
        """``(L, C, n)`` to ``(L, C, *sizes)``."""
        apart = block.reshape(*block.shape[:2], *self.view)
        moved = apart.permute(0, 1, *(dim + 2 for dim in self.order))
        return moved.reshape(*block.shape[:2], *self.sizes)

    def from_state(self, state: Tensor) -> Tensor:
        """``(L, *sizes, 1)`` to ``(L, n)``."""
        apart = state.reshape(len(state), *(self.view[dim] for dim in self.order))
        block = apart.permute(0, *(self.order.index(dim) + 1 for dim in range(len(self.view))))
        return block.reshape(len(state), -1)


def _place(ref: BlockRef) -> _Place:
    view, axes = ref.block.view, ref.block.axes
    neurons = list(ref.block.neuron_dims)
    others = [dim for dim in range(len(view)) if dim not in neurons]
    count = torch.Size([view[dim] for dim in others]).numel()
    names = tuple(axes[dim] for dim in neurons)
    sizes = tuple(view[dim] for dim in neurons)
    if count > 1:
        names, sizes = (*names, f"positions of {ref.key}"), (*sizes, count)
    return _Place(tuple(view), (*neurons, *others), names, sizes, count > 1)


def _structure(spec: WeightSpec, places: Sequence[_Place]) -> tuple[object, ...]:
    """What the parameters of the layer, and their meaning, depend on: neither sizes nor names of tensors."""
    neurons = [place.axes[:-1] if place.positions else place.axes for place in places]
    families = {name: spec.axes[name].family for names in neurons for name in names}
    return neurons, [place.positions for place in places], families


def _layer(spec: WeightSpec, places: Sequence[_Place], channels: int) -> UniversalLinear:
    sizes = {name: axis.size for name, axis in spec.axes.items()}
    sizes |= {place.axes[-1]: place.sizes[-1] for place in places if place.positions}
    tensors = [Signature(place.axes) for place in places]
    families = {name: axis.family for name, axis in spec.axes.items() if axis.family}
    return UniversalLinear(tensors, tensors, sizes, channels, 1, families)
