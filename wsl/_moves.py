"""The moves that :func:`wsl.verify` tries: generators of the group, and single places moved on their own."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from wsl.spec import WeightSpec
from wsl.symmetry import Action, sample

_SCALINGS = {"positive": "scaling along", "sign": "flipping signs along", "linear": "a matrix acting along"}


class Move(NamedTuple):
    """A group element of one network: what it does, to which tensors (empty: to all), and itself."""

    what: str
    carriers: str
    action: Action


class Place(NamedTuple):
    """A view dimension of a block that carries a hidden axis."""

    key: str
    dim: int
    axis: str


def places(spec: WeightSpec) -> tuple[Place, ...]:
    """All places of all hidden axes, in the order of the tensors."""
    hidden = {axis.name for axis in spec.hidden_axes}
    return tuple(
        Place(ref.key, dim, axis)
        for ref in spec.blocks
        for dim, axis in enumerate(ref.block.axes)
        if axis in hidden
    )


def carriers_of(spec: WeightSpec, axis: str) -> str:
    """The places of one axis, in words."""
    return ", ".join(f"{place.key} dim {place.dim}" for place in places(spec) if place.axis == axis)


def generators(spec: WeightSpec, generator: torch.Generator, device: torch.device) -> Iterator[Move]:
    """Everything at once, then each part of the group alone.

    An axis is moved by a cycle through all its neurons and by a swap of two neighbours in it: together
    they generate all permutations. Signs are flipped at an odd number of neurons, for the same reason. A
    family is moved with its members apart, then one member alone, which others would follow if they had to.
    """
    cycles = {a.name: _cycles(spec, a.name, generator).to(device) for a in spec.hidden_axes if a.size > 1}
    drawn = sample(
        spec, 1, permute=False, scale=True, linear=True, generator=generator, dtype=torch.float64
    ).scales
    scales = {index: scale.to(device) for index, scale in drawn.items()}
    if cycles or scales:
        yield Move("moving everything at once", "", Action(cycles, scales))
    for axis, whole in cycles.items():
        yield from _moves_of_axis(spec, axis, whole, generator)
    for index, scaling in enumerate(spec.scalings):
        scale = scales[index]
        if scaling.kind == "sign":
            scale = _odd_signs(scale, generator)
        powers = ", ".join(map(str, scaling.exponents))
        yield Move(f"{_SCALINGS[scaling.kind]} axis {scaling.axis}", powers, Action({}, {index: scale}))


def _moves_of_axis(spec: WeightSpec, axis: str, whole: Tensor, generator: torch.Generator) -> Iterator[Move]:
    carriers = carriers_of(spec, axis)
    size = whole.shape[-1]
    yield Move(f"permuting axis {axis}", carriers, Action({axis: whole}))
    members = whole.reshape(-1, size)
    chosen = int(torch.randint(len(members), (), generator=generator))
    rest = torch.arange(size, device=whole.device).repeat(len(members), 1)
    one, where = members[chosen], ""
    if len(members) > 1:
        family = spec.axes[axis].family
        where = f" at one index of {' and '.join(family)}"
        alone = rest.index_copy(0, torch.tensor([chosen], device=whole.device), one[None])
        yield Move(f"permuting axis {axis}{where}", carriers, Action({axis: alone.view_as(whole)}))
    if size > 2:
        swap = rest.clone()
        swap[chosen, 0], swap[chosen, one[0]] = one[0], 0
        yield Move(
            f"swapping two neurons of axis {axis}{where}", carriers, Action({axis: swap.view_as(whole)})
        )


def _cycles(spec: WeightSpec, axis: str, generator: torch.Generator) -> Tensor:
    """An independent :func:`cycle` for each member of a family, ``(1, *sizes of the family, n)``."""
    family = [spec.axes[name].size for name in spec.axes[axis].family]
    members = [cycle(spec.axes[axis].size, generator) for _ in range(math.prod(family))]
    return torch.stack(members).view(1, *family, -1)


def cycle(size: int, generator: torch.Generator) -> Tensor:
    """A random permutation ``(size,)`` that is one cycle: from 2 neurons on, none stays in place."""
    order = torch.randperm(size, generator=generator)
    permutation = torch.empty_like(order)
    permutation[order] = order.roll(1)
    return permutation


def move_alone(
    spec: WeightSpec, weights: Mapping[str, Tensor], place: Place, generator: torch.Generator
) -> dict[str, Tensor]:
    """Permute one view dimension of one block, and nothing else."""
    read = cycle(spec.block(place.key).block.view[place.dim], generator)
    return _with_block(
        spec, weights, place, lambda block: block.index_select(place.dim, read.to(block.device))
    )


def redraw_alone(
    spec: WeightSpec, weights: Mapping[str, Tensor], place: Place, generator: torch.Generator
) -> dict[str, Tensor]:
    """Multiply the entries of one block by random factors around one: signs stay."""

    def redrawn(block: Tensor) -> Tensor:
        return block * (0.5 + torch.rand(block.shape, generator=generator, dtype=torch.float64)).to(block)

    return _with_block(spec, weights, place, redrawn)


def _with_block(
    spec: WeightSpec, weights: Mapping[str, Tensor], place: Place, function: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    """Replace one block, given as its view; all other tensors are shared, not copied."""
    _, name, block = spec.block(place.key)
    tensor = weights[name].clone()
    part = tensor[0][tuple(slice(start, stop) for start, stop in block.slice)]
    part.copy_(function(part.reshape(block.view)).reshape(part.shape))
    return {**weights, name: tensor}


def _odd_signs(signs: Tensor, generator: torch.Generator) -> Tensor:
    """Signs like ``(1, *family, n)`` of which an odd number is negative, all in one member of the family.

    From 2 neurons on, some are positive.
    """
    size = signs.shape[-1]
    flat = torch.ones_like(signs).view(-1, size)
    chosen = int(torch.randint(len(flat), (), generator=generator))
    flat[chosen, torch.randperm(size, generator=generator)[: 1 + 2 * ((size - 1) // 4)]] = -1
    return flat.view_as(signs)
