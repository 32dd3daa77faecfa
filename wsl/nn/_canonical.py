"""Weights without the positive scalings of their neurons: every neuron divided by the norm of its own."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from wsl.spec import Scaling, WeightSpec

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """Where a scaling acts on a block.

    Args:
        key: the block.
        dims: the dimensions of ``(B, *view)`` that index the factors: those of the family, then the axis.
        power: of the factors.
    """

    key: str
    dims: Dims
    power: int

    def spread(self, factors: Tensor, rank: int) -> Tensor:
        """Factors ``(B, *family, n)`` as they broadcast against a block of ``rank`` dimensions."""
        order = sorted(range(len(self.dims)), key=self.dims.__getitem__)
        sizes = [1] * rank
        sizes[0] = factors.shape[0]
        for i in order:
            sizes[self.dims[i]] = factors.shape[i + 1]
        return factors.permute(0, *(i + 1 for i in order)).reshape(sizes)

    def squares(self, block: Tensor) -> Tensor:
        """The sum of squares of ``(B, *view)`` for each factor, ``(B, *family, n)``."""
        others = [dim for dim in range(1, block.dim()) if dim not in self.dims]
        total = block.square().sum(others) if others else block.square()
        order = sorted(self.dims)
        return total.permute(0, *(order.index(dim) + 1 for dim in self.dims))


@dataclass(frozen=True)
class CanonicalStep:
    """One scaling, divided out.

    Args:
        read: places, all of one power, whose norm stands for the factors.
        moved: all places of the scaling.
    """

    read: tuple[Place, ...]
    moved: tuple[Place, ...]


def places_of(spec: WeightSpec, scaling: Scaling) -> tuple[Place, ...]:
    """Where a scaling acts; powers of zero are left out."""
    axes = {ref.key: ref.block.axes for ref in spec.blocks}
    found = []
    for key, power, dim in scaling.exponents:
        own = axes[key]
        at = own.index(scaling.axis) if dim is None else dim
        dims = (*(own.index(member) + 1 for member in spec.axes[scaling.axis].family), at + 1)
        found += [Place(key, dims, power)] if power else []
    return tuple(found)


@lru_cache(maxsize=256)
def canonical_steps(spec: WeightSpec) -> tuple[tuple[CanonicalStep, ...], tuple[Scaling, ...]]:
    """In which order scalings can be divided out, and which cannot.

    A block shows the factors of a scaling if no other factors of scalings that are still there act on it.
    What a neuron receives (power +1) is preferred: from the inputs on, every layer shows those of the next.
    """
    left = {i: s for i, s in enumerate(spec.scalings) if s.kind != "sign"}
    places = {i: places_of(spec, scaling) for i, scaling in left.items()}
    steps: list[CanonicalStep] = []
    while True:
        acting: dict[str, int] = {}
        for i in left:
            for place in places[i]:
                acting[place.key] = acting.get(place.key, 0) + 1
        shown = {i: [p for p in places[i] if acting[p.key] == 1] for i in left}
        ready = [i for i in left if shown[i] or not places[i]]
        if not ready:
            return tuple(steps), tuple(left.values())
        first = min(ready, key=lambda i: (_preference(p.power for p in shown[i]), i))
        power = min((p.power for p in shown[first]), key=lambda p: _preference([p]), default=1)
        read = tuple(p for p in shown[first] if p.power == power)
        steps += [CanonicalStep(read, places[first])] if read else []
        del left[first]


def _preference(powers: Iterable[int]) -> int:
    """0 if some power is +1, then -1, then others."""
    return min((0 if power == 1 else 2 * abs(power) - (power < 0) for power in powers), default=0)


def canonicalise(
    spec: WeightSpec, blocks: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Divide positive scalings out of weights, exactly.

    With ``n_i`` the root mean square of what neuron ``i`` receives (its row and its bias, from canonical
    neurons), its row and bias are divided by it and its column is multiplied: nothing but the scale is lost.
    Neurons for which it is zero are dead, whatever their scale: their canonical weights are zero.

    Args:
        spec: the specification; scalings that :func:`canonical_steps` leaves over stay.
        blocks: by block key ``(B, *view)``.

    Returns:
        The canonical blocks, and by block key factors that broadcast against them, which move as the blocks
        do: ``block == canonical * factor``. Both are zero at dead neurons.
    """
    canonical = dict(blocks)
    factors: dict[str, Tensor] = {}
    for step in canonical_steps(spec)[0]:
        squares = torch.stack([place.squares(canonical[place.key]) for place in step.read]).sum(0)
        count = sum(math.prod(canonical[p.key].shape[1:]) for p in step.read) / squares[:1].numel()
        mean = squares / count if squares.numel() else squares
        alive = mean > 0
        norm = torch.where(alive, mean, 1).sqrt()
        for place in step.moved:
            block = canonical[place.key]
            power = place.power / step.read[0].power
            divisor, factor = (
                place.spread(torch.where(alive, norm**exponent, 0), block.dim())
                for exponent in (-power, power)
            )
            canonical[place.key] = block * divisor
            factors[place.key] = factors[place.key] * factor if place.key in factors else factor
    return canonical, factors
