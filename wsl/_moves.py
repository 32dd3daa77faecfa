"""The moves that :func:`wsl.verify` tries: generators of the group, and single places moved on their own."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from wsl.spec import WeightSpec
from wsl.symmetry import Action, sample


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
    they generate all permutations. Signs are flipped at an odd number of neurons, for the same reason.
    """
    cycles = {a.name: cycle(a.size, generator).to(device) for a in spec.hidden_axes if a.size > 1}
    factors = sample(spec, 1, permute=False, scale=True, generator=generator, dtype=torch.float64).scales
    scales = {
        index: (_odd_signs(factor, generator) if spec.scalings[index].kind == "sign" else factor).to(device)
        for index, factor in factors.items()
    }
    if cycles or scales:
        yield Move("moving everything at once", "", Action({k: v[None] for k, v in cycles.items()}, scales))
    for axis, whole in cycles.items():
        carriers = carriers_of(spec, axis)
        yield Move(f"permuting axis {axis}", carriers, Action({axis: whole[None]}))
        if len(whole) > 2:
            swap = torch.arange(len(whole), device=device)
            swap[0], swap[whole[0]] = whole[0], 0
            yield Move(f"swapping two neurons of axis {axis}", carriers, Action({axis: swap[None]}))
    for index, scaling in enumerate(spec.scalings):
        what = "scaling" if scaling.kind == "positive" else "flipping signs"
        powers = ", ".join(f"{key}{power:+d}" for key, power in scaling.exponents)
        yield Move(f"{what} along axis {scaling.axis}", powers, Action({}, {index: scales[index]}))


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
    blocks = spec.split(weights)
    block = blocks[place.key]
    read = cycle(block.shape[place.dim + 1], generator).to(block.device)
    return spec.join({**blocks, place.key: block.index_select(place.dim + 1, read)})


def redraw_alone(
    spec: WeightSpec, weights: Mapping[str, Tensor], place: Place, generator: torch.Generator
) -> dict[str, Tensor]:
    """Multiply the entries of one block by random factors around one: signs stay."""
    blocks = spec.split(weights)
    block = blocks[place.key]
    factors = 0.5 + torch.rand(block.shape, generator=generator, dtype=torch.float64)
    return spec.join({**blocks, place.key: block * factors.to(block)})


def _odd_signs(signs: Tensor, generator: torch.Generator) -> Tensor:
    """Signs ``(1, n)`` of which an odd number is negative and, from 2 neurons on, some are positive."""
    size = signs.shape[1]
    flipped = torch.randperm(size, generator=generator)[: 1 + 2 * ((size - 1) // 4)]
    return torch.ones_like(signs).index_fill(1, flipped, -1)
