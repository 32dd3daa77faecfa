"""The group laws: identity, inverse, composition."""

from collections.abc import Mapping

import torch
from torch import Tensor

from wsl.spec import SpecError, WeightSpec
from wsl.symmetry._action import Action, is_matrix, sizes_of
from wsl.symmetry._tensors import carry


def identity(
    spec: WeightSpec,
    batch: int,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Action:
    """The neutral element, written out: every permutation and every scale is there, on ``device``."""
    permutations = {
        axis.name: torch.arange(axis.size, device=device).repeat(batch, *sizes_of(spec, axis.name)[:-1], 1)
        for axis in spec.hidden_axes
    }
    scales = {
        index: torch.ones(batch, *sizes_of(spec, scaling.axis), device=device, dtype=dtype)
        for index, scaling in enumerate(spec.scalings)
    }
    return Action(permutations, scales)


def inverse(spec: WeightSpec, action: Action) -> Action:
    """The element that undoes ``action``: ``apply(inverse(g), apply(g, w)) == w``.

    Raises:
        SpecError: a matrix acts along an axis that families which move are over: their members would mix.
    """
    _check_matrices(spec, action, action)
    undone: dict[str, Tensor] = {}
    for axis in sorted(action.permutations, key=lambda name: len(spec.axes[name].family)):
        # The family of an axis is larger than those of its members, which are therefore undone before it.
        back = action.permutations[axis].argsort(dim=-1)
        undone[axis] = carry(spec, undone, back, (*spec.axes[axis].family, ""))
    scales = {}
    for index, scale in action.scales.items():
        back = torch.linalg.inv(scale) if is_matrix(spec, index, scale) else scale.reciprocal()
        scales[index] = _carry_scale(spec, undone, index, back)
    return Action({axis: undone[axis] for axis in action.permutations}, scales)


def compose(spec: WeightSpec, g: Action, h: Action) -> Action:
    """The element that acts like ``h``, then ``g``: ``apply(compose(g, h), w) == apply(g, apply(h, w))``.

    Raises:
        SpecError: ``h`` mixes by a matrix the members of a family that ``g`` moves apart.
    """
    _check_matrices(spec, h, g)
    permutations = {
        axis: carry(spec, g.permutations, perm, (*spec.axes[axis].family, axis))
        for axis, perm in h.permutations.items()
    }
    permutations |= {axis: perm for axis, perm in g.permutations.items() if axis not in permutations}
    scales = dict(g.scales)
    for index, scale in h.scales.items():
        moved = _carry_scale(spec, g.permutations, index, scale)
        scales[index] = _product(spec, index, g.scales[index], moved) if index in g.scales else moved
    return Action(permutations, scales)


def _check_matrices(spec: WeightSpec, first: Action, second: Action) -> None:
    """Matrices along one axis and moves of a family over it generate more than elements can express."""
    moved = {*second.permutations, *(spec.scalings[index].axis for index in second.scales)}
    for index, scale in first.scales.items():
        mixed = spec.scalings[index].axis
        families = [name for name in spec.axes if name in moved and mixed in spec.axes[name].family]
        if families and is_matrix(spec, index, scale):
            raise SpecError(
                f"a matrix acts along axis {mixed}, and {', '.join(families)}, a family over {mixed}, is "
                "moved too: together these do not make one group element.\n"
                "  Apply them one after the other, or draw factors instead of matrices (linear=False)."
            )


def _carry_scale(spec: WeightSpec, permutations: Mapping[str, Tensor], index: int, scale: Tensor) -> Tensor:
    """Factors, or both dimensions of matrices, in a new order of the neurons and of their family."""
    axis = spec.scalings[index].axis
    repeated = (axis, axis) if is_matrix(spec, index, scale) else (axis,)
    return carry(spec, permutations, scale, (*spec.axes[axis].family, *repeated))


def _product(spec: WeightSpec, index: int, left: Tensor, right: Tensor) -> Tensor:
    """Factors times factors are factors; with a matrix on either side, the product is one."""
    match is_matrix(spec, index, left), is_matrix(spec, index, right):
        case True, True:
            return left @ right
        case True, False:
            return left * right.unsqueeze(-2)
        case False, True:
            return left.unsqueeze(-1) * right
    return left * right
