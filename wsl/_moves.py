"""The moves that :func:`wsl.verify` tries: generators of the group, and single places moved on their own."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from wsl.spec import WeightSpec, part_of
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
    family is moved with its members apart, then some of them alone, which others would follow if they had to.
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
        what, powers = (
            f"{_SCALINGS[scaling.kind]} axis {scaling.axis}",
            ", ".join(map(str, scaling.exponents)),
        )
        if scaling.kind == "sign":
            for where, members in _subsets(spec, scaling.axis, generator):
                signs = _odd_signs(scales[index], members.to(device), generator)
                yield Move(f"{what}{where}", powers, Action({}, {index: signs}))
        else:
            yield Move(what, powers, Action({}, {index: scales[index]}))


def _moves_of_axis(spec: WeightSpec, axis: str, whole: Tensor, generator: torch.Generator) -> Iterator[Move]:
    carriers = carriers_of(spec, axis)
    size = whole.shape[-1]
    yield Move(f"permuting axis {axis}", carriers, Action({axis: whole}))
    cycles = whole.reshape(-1, size)
    rest = torch.arange(size, device=whole.device).expand_as(cycles)
    subsets = _subsets(spec, axis, generator)
    for where, members in subsets if len(cycles) > 1 else ():
        some = torch.where(members.to(whole.device).unsqueeze(1), cycles, rest)
        yield Move(f"permuting axis {axis}{where}", carriers, Action({axis: some.view_as(whole)}))
    if size > 2:
        where, members = subsets[0]
        chosen = int(members.nonzero())
        other = int(cycles[chosen, 0])
        swap = rest.clone()
        swap[chosen, 0], swap[chosen, other] = other, 0
        what = f"swapping two neurons of axis {axis}{where}"
        yield Move(what, carriers, Action({axis: swap.view_as(whole)}))


def _subsets(spec: WeightSpec, axis: str, generator: torch.Generator) -> list[tuple[str, Tensor]]:
    """Members of a family to be moved while the others stay: where these are, in words and as masks.

    First a single one. It stands for all if what the family is over can be permuted; if not, subsets follow
    that tell any two members apart.
    """
    family = [spec.axes[name] for name in spec.axes[axis].family]
    count = math.prod(outer.size for outer in family)
    members = torch.arange(count)
    one = members == torch.randint(count, (), generator=generator)
    if count == 1:
        return [("", one)]
    over = " and ".join(outer.name for outer in family)
    bits = range((count - 1).bit_length()) if any(outer.kind != "hidden" for outer in family) else ()
    subsets = [(f" at some indices of {over}", (members >> bit) % 2 == 1) for bit in bits]
    return [(f" at one index of {over}", one), *subsets]


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
    part = part_of(spec.tensors[name], block, tensor)[0]
    part.copy_(function(part.reshape(block.view)).reshape(part.shape))
    return {**weights, name: tensor}


def _odd_signs(like: Tensor, members: Tensor, generator: torch.Generator) -> Tensor:
    """Signs ``(1, *family, n)`` of which an odd number is negative in each of some ``members`` of the family.

    From 2 neurons on, some are positive.
    """
    size = like.shape[-1]
    signs = torch.ones_like(like).view(-1, size)
    for member in members.nonzero():
        signs[member, torch.randperm(size, generator=generator)[: 1 + 2 * ((size - 1) // 4)]] = -1
    return signs.view_as(like)
