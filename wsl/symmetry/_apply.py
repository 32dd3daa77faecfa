"""Acting on weights, on weight features and on node features."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from wsl.spec import Block, SpecError, WeightSpec
from wsl.symmetry._action import Action, check_action, is_matrix
from wsl.symmetry._tensors import Cache, Dims, carry, dims_of, mix_along, permute, scale_along

_Along = Callable[[Tensor, Dims, Tensor], Tensor]


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
    """Move weight features ``(B, *view, C)``, by block key; each channel moves as the weights do.

    Raises:
        SpecError: features of other blocks, shapes or numbers of networks, or an action that does not fit.
    """
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
    """Permute node features ``(B, n, C)``, by name of the node set of ``spec.topology``.

    The ``n`` nodes are the combinations of indices of the node set's axes, the last one running fastest.
    Scales leave them alone: they carry no unit.

    Raises:
        SpecError: an unknown node set, features of another shape, or an action that does not fit.
    """
    sets = {node_set.name: node_set.axes for node_set in spec.topology.nodes}
    moved = {}
    for name, features in nodes.items():
        if name not in sets:
            raise SpecError(f"{name} is no node set of the spec; node sets: {', '.join(sets) or 'none'}.")
        sizes = tuple(spec.axes[axis].size for axis in sets[name])
        count = torch.Size(sizes).numel()
        if features.dim() != 3 or features.shape[1] != count:
            raise SpecError(
                f"features of nodes {name} have shape {tuple(features.shape)}; expected (B, {count}, C)."
            )
        check_action(spec, action, features.shape[0])
        grid = features.reshape(features.shape[0], *sizes, features.shape[2])
        moved[name] = carry(spec, action.permutations, grid, sets[name]).reshape(features.shape)
    return moved


@dataclass(frozen=True)
class _Recipe:
    """What moves one block, and along which dimensions (those of the family, then the axis itself)."""

    permuted: tuple[tuple[str, Dims], ...]
    scaled: tuple[tuple[int, int, Dims], ...]  # index of the scaling, power, dimensions


@lru_cache(maxsize=256)
def _recipes(spec: WeightSpec) -> dict[str, _Recipe]:
    hidden = {axis.name for axis in spec.hidden_axes}
    scaled: dict[str, list[tuple[int, int, Dims]]] = {}
    blocks: dict[str, Block] = {ref.key: ref.block for ref in spec.blocks}
    for index, scaling in enumerate(spec.scalings):
        for key, power, dim in scaling.exponents:
            if power:
                dims = dims_of(spec, scaling.axis, blocks[key].axes, dim)
                scaled.setdefault(key, []).append((index, power, dims))
    return {
        key: _Recipe(
            permuted=tuple(
                (axis, dims_of(spec, axis, block.axes, dim))
                for dim, axis in enumerate(block.axes)
                if axis in hidden
            ),
            scaled=tuple(scaled.get(key, ())),
        )
        for key, block in blocks.items()
    }


def _act(spec: WeightSpec, action: Action, blocks: Mapping[str, Tensor], batch: int) -> dict[str, Tensor]:
    check_action(spec, action, batch)
    perms = action.permutations
    rows: Cache = {}
    powers: dict[tuple[int, int, torch.dtype], tuple[_Along, Tensor]] = {}
    moved = {}
    for key, recipe in _recipes(spec).items():
        block = blocks[key]
        permuted = [(axis, dims) for axis, dims in recipe.permuted if axis in perms]
        if permuted:
            names, where = zip(*permuted, strict=True)
            block = permute(block, where, tuple(perms[axis] for axis in names), rows)
        for index, power, dims in recipe.scaled:
            if index in action.scales:
                at = (index, power, block.dtype)
                if at not in powers:
                    powers[at] = _power(spec, index, action.scales[index], power, block.dtype)
                along, factors = powers[at]
                block = along(block, dims, factors)
        moved[key] = block
    return moved


def _power(
    spec: WeightSpec, index: int, scale: Tensor, power: int, dtype: torch.dtype
) -> tuple[_Along, Tensor]:
    """How a scale acts, and by what: what ``M`` makes is read by the transpose of its inverse."""
    if not is_matrix(spec, index, scale):
        return scale_along, (scale**power).to(dtype)
    return mix_along, (scale if power == 1 else torch.linalg.inv(scale).mT).to(dtype)
