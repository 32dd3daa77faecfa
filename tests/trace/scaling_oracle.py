"""What scalings a network really has, measured without the tracer: null spaces, sign patterns, matrices."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from wsl.spec import BlockRef, Scaling, WeightSpec, part_of

STEP = 1e-5
TOLERANCE = 1e-6


class Place(NamedTuple):
    """A view dimension of a block that carries the axis in question."""

    key: str
    dim: int


class Measured:
    """A module in float64 with random parameters and statistics, and what becomes of its outputs."""

    def __init__(self, module: nn.Module, spec: WeightSpec, inputs: Any, select: Any = None) -> None:
        self.module = copy.deepcopy(module).double().eval()
        self.spec = spec
        self.inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        self.select = select
        self.generator = torch.Generator().manual_seed(0)
        named = dict(self.module.named_parameters(remove_duplicate=False))
        named |= dict(self.module.named_buffers(remove_duplicate=False))
        self.tensors = {name: named[name].detach() for name in spec.tensors}
        self.first = {t.data_ptr(): name for name, t in reversed(self.tensors.items())}
        self.blocks = {ref.key: ref for ref in spec.blocks if self._is_first(ref)}
        for part in self.module.modules():
            if isinstance(getattr(part, "eps", None), float):
                part.eps = 0.1  # else variances could be scaled, very nearly
        self.redraw()

    def redraw(self, scale: float = 1.0) -> None:
        """New weights and floating-point inputs; these large ones reach the bounds of activations."""
        for name, tensor in self.tensors.items():
            if name.endswith("running_var"):
                tensor.copy_(self._uniform(tensor))
            else:
                fan_in = max(tensor[:1].numel(), 1)
                tensor.copy_(1.5 * self._normal(tensor) / fan_in**0.5)
        self.examples = tuple(
            scale * self._normal(x.double()) if x.is_floating_point() else x for x in self.inputs
        )

    def outputs(self) -> Tensor:
        with torch.no_grad():
            result = self.module(*(x.clone() for x in self.examples))
        result = self.select(result) if self.select else result
        return torch.cat([t.flatten().double() for t in _tensors(result)])

    def changed(self, factors: dict[str, Tensor]) -> Tensor:
        """The outputs after blocks were multiplied by ``factors``, which broadcast to their views."""
        return self.replaced({key: self.view(key) * factor for key, factor in factors.items()})

    def replaced(self, views: dict[str, Tensor]) -> Tensor:
        """The outputs with other entries in some blocks."""
        kept = {name: tensor.clone() for name, tensor in self.tensors.items()}
        for key, view in views.items():
            ref = self.blocks[key]
            part = self._part(ref)
            part.copy_(view.reshape(part.shape))
        changed = self.outputs()
        for name, tensor in kept.items():
            self.tensors[name].copy_(tensor)
        return changed

    def view(self, key: str) -> Tensor:
        ref = self.blocks[key]
        return self._part(ref).reshape(ref.block.view).clone()

    def places(self, axis: str) -> list[Place]:
        return [
            Place(key, dim)
            for key, ref in self.blocks.items()
            for dim, name in enumerate(ref.block.axes)
            if name == axis
        ]

    def neuron(self, place: Place, axis: str, index: int) -> Tensor:
        """Where the view of a block has ``index`` at the place, and index 0 of all contexts of the axis."""
        block = self.blocks[place.key].block
        where = torch.zeros(block.view, dtype=torch.float64)
        at: list[Any] = [slice(None)] * len(block.view)
        for dim, name in enumerate(block.axes):
            if name in self.spec.axes[axis].family:
                at[dim] = 0
        at[place.dim] = index
        where[tuple(at)] = 1
        return where

    def powers(self, scaling: Scaling) -> dict[Place, int]:
        """The exponents of a scaling by place, those of tied tensors once."""
        found = {}
        for key, power, dim in scaling.exponents:
            if key in self.blocks:
                axes = self.blocks[key].block.axes
                found[Place(key, axes.index(scaling.axis) if dim is None else dim)] = power
        return found

    def _part(self, ref: BlockRef) -> Tensor:
        return part_of(self.spec.tensors[ref.tensor], ref.block, self.tensors[ref.tensor].unsqueeze(0))[0]

    def _is_first(self, ref: BlockRef) -> bool:
        return self.first[self.tensors[ref.tensor].data_ptr()] == ref.tensor

    def _normal(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=self.generator, dtype=torch.float64)

    def _uniform(self, like: Tensor) -> Tensor:
        return 0.5 + torch.rand(like.shape, generator=self.generator, dtype=torch.float64)


def null_space(
    measured: Measured, axis: str, expected: int = 0, draws: int = 12
) -> tuple[Tensor, list[Place]]:
    """Powers of the scale of one neuron, at each place, that leave the outputs unchanged.

    To first order, by central differences; the same powers for several neurons, weights and inputs.

    Returns:
        An orthonormal basis ``(solutions, places)``, and the places that never matter.
    """
    places = measured.places(axis)
    size = measured.spec.axes[axis].size
    jacobian = torch.zeros(0, len(places))
    for draw in range(draws):
        measured.redraw((1.0, 3.0, 9.0)[draw % 3])
        rows = []
        for place in places:
            where = measured.neuron(place, axis, draw % size)
            up, down = (measured.changed({place.key: 1 + sign * STEP * where}) for sign in (1, -1))
            rows.append((up - down) / (2 * STEP))
        jacobian = torch.cat([jacobian, torch.stack(rows, 1) / measured.outputs().abs().max()])
        matters = jacobian.abs().amax(0) > TOLERANCE
        _, values, vectors = torch.linalg.svd(jacobian[:, matters], full_matrices=True)
        rank = int((values > TOLERANCE * values.max()).sum()) if matters.any() else 0
        if draw >= 3 and len(places) - rank <= expected:
            break
    found = torch.eye(len(places), dtype=torch.float64)[~matters]
    rest = torch.zeros(len(vectors) - rank, len(places), dtype=torch.float64)
    rest[:, matters] = vectors[rank:]
    return torch.cat([found, rest]), [p for p, live in zip(places, matters, strict=True) if not live]


def sign_patterns(measured: Measured, axis: str, draws: int = 6) -> set[tuple[int, ...]]:
    """All ways to flip one neuron, at each place or not, that leave the outputs unchanged."""
    places = measured.places(axis)
    size = measured.spec.axes[axis].size
    choices = [(0,) if "running_var" in place.key else (0, 1) for place in places]
    patterns = set(itertools.product(*choices))
    for draw in range(draws):
        measured.redraw((1.0, 3.0, 9.0)[draw % 3])
        before = measured.outputs()
        for pattern in sorted(patterns):
            factors: dict[str, Tensor] = {}
            for place, flipped in zip(places, pattern, strict=True):
                if flipped:
                    factor = 1 - 2 * measured.neuron(place, axis, draw % size)
                    factors[place.key] = factors.get(place.key, 1) * factor
            if _differ(before, measured.changed(factors)):
                patterns.discard(pattern)
    return patterns


def act(measured: Measured, scaling: Scaling) -> dict[str, Tensor]:
    """The views of all blocks after a random element of the group that ``scaling`` generates."""
    axis = measured.spec.axes[scaling.axis]
    contexts = [measured.spec.axes[name].size for name in axis.family]
    generator = measured.generator
    matrix = torch.randn(*contexts, axis.size, axis.size, generator=generator, dtype=torch.float64)
    matrix = matrix + 2 * torch.eye(axis.size)
    factors = torch.exp(torch.randn(*contexts, axis.size, generator=generator, dtype=torch.float64) / 2)
    if scaling.kind == "sign":
        factors = 1 - 2.0 * torch.randint(2, factors.shape, generator=generator)
        factors[..., 0] = -1
    views: dict[str, Tensor] = {}
    for (key, dim), power in measured.powers(scaling).items():
        names = measured.blocks[key].block.axes
        at = [names.index(name) for name in axis.family]
        view = views[key] if key in views else measured.view(key)
        moved = view.movedim([*at, dim], list(range(len(at) + 1)))
        flat = moved.reshape(*moved.shape[: len(at) + 1], -1)
        if scaling.kind == "linear":
            flat = (matrix if power == 1 else torch.linalg.inv(matrix).mT) @ flat
        else:
            flat = factors[..., None] ** power * flat
        views[key] = flat.reshape(moved.shape).movedim(list(range(len(at) + 1)), [*at, dim])
    return views


def holds(measured: Measured, scaling: Scaling) -> bool:
    """Whether a random element of the group leaves the outputs unchanged."""
    measured.redraw()
    return not _differ(measured.outputs(), measured.replaced(act(measured, scaling)))


def _differ(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() > 1e-8 * a.abs().max())


def _tensors(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, dict):
        yield from _tensors(tuple(result.values()))
    elif isinstance(result, Iterable):
        for item in result:
            yield from _tensors(item)


def claimed(measured: Measured, axis: str, kind: str) -> Tensor:
    """Powers ``(generators, places)`` of one neuron that a specification claims.

    Linear scalings count as positive and as signs; those of families along the axis act on it as well, with
    the same factor for all neurons of the family.
    """
    places = measured.places(axis)
    rows = []
    for scaling in measured.spec.scalings:
        along = scaling.axis == axis or axis in measured.spec.axes[scaling.axis].family
        if along and scaling.kind in (kind, "linear"):
            powers = dict.fromkeys(places, 0)
            for (key, dim), power in measured.powers(scaling).items():
                at = dim if scaling.axis == axis else measured.blocks[key].block.axes.index(axis)
                powers[Place(key, at)] += power
            rows.append(list(powers.values()))
    return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), len(places))


def spanned(generators: Tensor) -> set[tuple[int, ...]]:
    """All sums modulo 2 of rows."""
    count, width = generators.shape
    found = {(0,) * width}
    for row in generators.int().tolist():
        found |= {tuple((a + b) % 2 for a, b in zip(row, other, strict=True)) for other in found}
    assert count < 12
    return found
