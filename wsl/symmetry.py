"""The symmetry group of a weight space: permutations of hidden axes, positive scalings and sign flips.

A group element permutes first and scales then. Along a hidden axis with permutation ``p`` and factors ``s``,
which enter the block at hand with power ``e``, ``apply`` makes

    new[..., i, ...] = s[i] ** e * old[..., p[i], ...]

Hence ``compose(g, h)`` has ``p = p_h[p_g]``, ``s = s_g * s_h[p_g]``, and ``inverse`` has ``q = argsort(p)``
and ``1 / s[q]``. Everything is batched: network ``b`` is moved by its own element.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from wsl.spec import Block, SpecError, WeightSpec

__all__ = [
    "Action",
    "apply",
    "apply_to_features",
    "apply_to_nodes",
    "compose",
    "identity",
    "inverse",
    "sample",
]


@dataclass(frozen=True, eq=False)
class Action:
    """One group element for each of ``B`` networks. What is left out stays where it is.

    Args:
        permutations: for names of hidden axes, ``(B, n)`` int64: the old position of every new neuron.
        scales: for indices into ``spec.scalings``, ``(B, n)`` factors of the neurons in their new order:
            above zero where the scaling is ``positive``, +1 or -1 where it is ``sign``.
    """

    permutations: Mapping[str, Tensor] = field(default_factory=dict)
    scales: Mapping[int, Tensor] = field(default_factory=dict)


def sample(
    spec: WeightSpec,
    batch: int,
    *,
    permute: bool = True,
    scale: bool = False,
    bound: float = 4.0,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Action:
    """Draw ``batch`` independent group elements.

    Args:
        permute: draw a uniform permutation of every hidden axis.
        scale: draw factors of every scaling: signs with equal odds, positive factors log-uniform in
            ``[1 / bound, bound]``.
        generator: source of randomness, on ``device``; torch's global generator of that device if not given.
        device: where the element lives; the generator's device, else the CPU, if not given.
        dtype: of the scales; torch's default if not given. The group laws hold to this precision.
    """
    if bound < 1:
        raise ValueError(f"bound is {bound}; positive factors are drawn from [1 / bound, bound], bound >= 1.")
    device = device or (generator.device if generator is not None else "cpu")
    permutations, scales = {}, {}
    if permute:
        for axis in spec.hidden_axes:
            # float64 keys: ties, which would favour the identity, do not occur
            keys = torch.rand(batch, axis.size, generator=generator, device=device, dtype=torch.float64)
            permutations[axis.name] = keys.argsort(dim=1)
    if scale:
        dtype = dtype or torch.get_default_dtype()
        for index, scaling in enumerate(spec.scalings):
            shape = (batch, spec.axes[scaling.axis].size)
            if scaling.kind == "sign":
                flips = torch.randint(0, 2, shape, generator=generator, device=device)
                scales[index] = (1 - 2 * flips).to(dtype)
            else:
                uniform = torch.rand(shape, generator=generator, device=device, dtype=dtype)
                scales[index] = ((2 * uniform - 1) * math.log(bound)).exp()
    return Action(permutations, scales)


def identity(
    spec: WeightSpec,
    batch: int,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Action:
    """The neutral element, written out: every permutation and every scale is there, on ``device``."""
    permutations = {
        axis.name: torch.arange(axis.size, device=device).repeat(batch, 1) for axis in spec.hidden_axes
    }
    scales = {
        index: torch.ones(batch, spec.axes[scaling.axis].size, device=device, dtype=dtype)
        for index, scaling in enumerate(spec.scalings)
    }
    return Action(permutations, scales)


def inverse(spec: WeightSpec, action: Action) -> Action:
    """The element that undoes ``action``: ``apply(inverse(g), apply(g, w)) == w``."""
    undone = {axis: perm.argsort(dim=1) for axis, perm in action.permutations.items()}
    scales = {}
    for index, scale in action.scales.items():
        back = undone.get(spec.scalings[index].axis)
        scales[index] = (scale if back is None else scale.gather(1, back)).reciprocal()
    return Action(undone, scales)


def compose(spec: WeightSpec, g: Action, h: Action) -> Action:
    """The element that acts like ``h``, then ``g``: ``apply(compose(g, h), w) == apply(g, apply(h, w))``."""
    permutations = {**h.permutations, **g.permutations}
    for axis in h.permutations.keys() & g.permutations.keys():
        permutations[axis] = h.permutations[axis].gather(1, g.permutations[axis])
    scales = dict(g.scales)
    for index, scale in h.scales.items():
        perm = g.permutations.get(spec.scalings[index].axis)
        moved = scale if perm is None else scale.gather(1, perm)
        scales[index] = scales[index] * moved if index in scales else moved
    return Action(permutations, scales)


def apply(spec: WeightSpec, action: Action, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Move every network of ``weights`` along its orbit; its function does not change.

    Args:
        weights: ``(B, *shape)`` for every tensor of ``spec``; also gradients or updates under permutations.

    Returns:
        New weights of the same dtypes and devices; differentiable in ``weights`` and ``action.scales``. What
        the element leaves alone shares its memory with ``weights``.

    Raises:
        SpecError: weights that do not fit ``spec``, or an action of other axes, sizes or number of networks.
    """
    batch = spec.check_weights(weights)
    return spec.join(_act(spec, action, spec.split(weights), batch))


def apply_to_features(spec: WeightSpec, action: Action, features: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Move weight features ``(B, *view, C)``, by block key; each channel moves as the weights do."""
    views = {ref.key: ref.block.view for ref in spec.blocks}
    if features.keys() != views.keys():
        raise SpecError(f"the features hold blocks {', '.join(features)}; expected {', '.join(views)}.")
    for key, view in views.items():
        if tuple(features[key].shape[1:-1]) != view:
            raise SpecError(
                f"features of {key} have shape {tuple(features[key].shape)}; "
                f"expected (B, {', '.join(map(str, view))}, C)."
            )
    batches = {feature.shape[0] for feature in features.values()}
    if len(batches) > 1:
        raise SpecError(f"the features hold different numbers of networks: {sorted(batches)}.")
    return _act(spec, action, features, next(iter(batches), 1))


def apply_to_nodes(spec: WeightSpec, action: Action, nodes: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Permute node features ``(B, n, C)``, by axis name. Scales leave them alone: they carry no unit."""
    moved = dict(nodes)
    for axis, perm in action.permutations.items():
        if axis in moved:
            _check_part(f"permutation of axis {axis}", perm, moved[axis].shape[0], spec.axes[axis].size)
            moved[axis] = _permute(moved[axis], (1,), (perm,), {})
    return moved


@dataclass(frozen=True)
class _Recipe:
    """What moves one block: view dims with their hidden axis; scalings with view dim and power."""

    permuted: tuple[tuple[int, str], ...]
    scaled: tuple[tuple[int, int, int], ...]


@lru_cache(maxsize=256)
def _recipes(spec: WeightSpec) -> dict[str, _Recipe]:
    hidden = {axis.name for axis in spec.hidden_axes}
    scaled: dict[str, list[tuple[int, int, int]]] = {}
    blocks: dict[str, Block] = {ref.key: ref.block for ref in spec.blocks}
    for index, scaling in enumerate(spec.scalings):
        for key, power in scaling.exponents:
            scaled.setdefault(key, []).append((index, blocks[key].axes.index(scaling.axis), power))
    return {
        key: _Recipe(
            permuted=tuple((dim, axis) for dim, axis in enumerate(block.axes) if axis in hidden),
            scaled=tuple(scaled.get(key, ())),
        )
        for key, block in blocks.items()
    }


def _act(spec: WeightSpec, action: Action, blocks: Mapping[str, Tensor], batch: int) -> dict[str, Tensor]:
    _check_action(spec, action, batch)
    perms = action.permutations
    rows: dict[tuple[object, ...], Tensor] = {}
    powers: dict[tuple[int, int, torch.dtype], Tensor] = {}
    moved = {}
    for key, recipe in _recipes(spec).items():
        block = blocks[key]
        dims = [(dim, axis) for dim, axis in recipe.permuted if axis in perms]
        if dims:
            where, names = zip(*((dim + 1, axis) for dim, axis in dims), strict=True)
            block = _permute(block, where, tuple(perms[axis] for axis in names), rows)
        for index, dim, power in recipe.scaled:
            if index in action.scales and power:
                at = (index, power, block.dtype)
                if at not in powers:
                    powers[at] = (action.scales[index] ** power).to(block.dtype)
                block = (
                    block * powers[at][(slice(None), *[None] * dim, ..., *[None] * (block.dim() - dim - 2))]
                )
        moved[key] = block
    return moved


def _permute(
    block: Tensor, dims: tuple[int, ...], perms: tuple[Tensor, ...], cache: dict[tuple[object, ...], Tensor]
) -> Tensor:
    """Read ``block`` ``(B, *view, ...)`` at ``perms[k]`` along ``dims[k]`` (ascending), in one indexed read.

    Leading dimensions up to the last permuted one become rows, what follows stays together: this reads
    kernels as runs, 2 to 3 times as fast as advanced indexing. Row numbers are shared through ``cache``.
    """
    shape = block.shape
    if len(dims) == 1 and block.dim() == 2:
        return block.gather(1, perms[0])
    leading = shape[: dims[-1] + 1]
    at = (leading, dims, *map(id, perms))
    rows = cache.get(at)
    if rows is None:
        parts = dict(zip(dims, perms, strict=True))
        rows = torch.arange(shape[0], device=block.device)
        for dim in range(1, len(leading)):
            rows = rows.unsqueeze(-1) * leading[dim]
            if dim in parts:
                perm = parts[dim]
                rows = rows + perm.view(perm.shape[0], *[1] * (dim - 1), perm.shape[1])
            else:
                rows = rows + torch.arange(leading[dim], device=block.device)
        rows = cache[at] = rows.flatten()
    return block.reshape(rows.shape[0], math.prod(shape[len(leading) :])).index_select(0, rows).view(shape)


def _check_action(spec: WeightSpec, action: Action, batch: int) -> None:
    for name, perm in action.permutations.items():
        axis = spec.axes.get(name)
        if axis is None or axis.kind != "hidden":
            hidden = ", ".join(a.name for a in spec.hidden_axes) or "none"
            raise SpecError(
                f"the action permutes {name}, which is no hidden axis of the spec; hidden axes: {hidden}."
            )
        _check_part(f"permutation of axis {name}", perm, batch, axis.size)
    for index, scale in action.scales.items():
        if not 0 <= index < len(spec.scalings):
            raise SpecError(
                f"the action has scales for scaling {index}, but the spec has {len(spec.scalings)} scalings."
            )
        axis = spec.axes[spec.scalings[index].axis]
        _check_part(f"scale of axis {axis.name}", scale, batch, axis.size)


def _check_part(what: str, part: Tensor, batch: int, size: int) -> None:
    if part.shape != (batch, size):
        raise SpecError(
            f"the {what} has shape {tuple(part.shape)}; expected ({batch}, {size}): networks, neurons.\n"
            "  The action was made for another spec, or for another number of networks."
        )
