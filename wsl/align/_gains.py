"""What it gains to put a neuron of ``b`` where one of ``a`` stands, by inner products of weights."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import torch
from torch import Tensor

from wsl.spec import WeightSpec, is_running_statistic

Blocks = Mapping[str, Tensor]


def similarity(spec: WeightSpec, weights_a: Mapping[str, Tensor], weights_b: Mapping[str, Tensor]) -> Tensor:
    """Inner product of all weights of each pair of networks: the objective of :func:`weight_matching`.

    Running means and variances move with the neurons but do not count.

    Args:
        weights_a, weights_b: ``(B, *shape)`` for every tensor of ``spec``.

    Returns:
        ``(B,)`` float64.

    Raises:
        SpecError: weights that do not fit ``spec``.
    """
    spec.check_weights(weights_a)
    spec.check_weights(weights_b)
    return inner_product(spec, split(spec, weights_a), split(spec, weights_b))


def split(spec: WeightSpec, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The blocks in float64, cut off from any graph."""
    return {key: block.detach().double() for key, block in spec.split(weights).items()}


def inner_product(spec: WeightSpec, a: Blocks, b: Blocks) -> Tensor:
    """``(B,)``, over the blocks that count."""
    products = [(a[key] * b[key]).reshape(len(a[key]), -1).sum(1) for key in counted(spec)]
    return torch.stack(products).sum(0)


@lru_cache(maxsize=256)
def counted(spec: WeightSpec) -> tuple[str, ...]:
    """Keys of the blocks that count: all but running statistics."""
    return tuple(ref.key for ref in spec.blocks if not is_running_statistic(ref.tensor))


@lru_cache(maxsize=256)
def flips(spec: WeightSpec, axis: str) -> tuple[int, ...]:
    """The scalings of an axis by which its neurons may change their signs."""
    return tuple(
        index
        for index, scaling in enumerate(spec.scalings)
        if scaling.axis == axis and scaling.kind in ("sign", "linear")
    )


def gains(
    spec: WeightSpec, axis: str, keys: Iterable[str], a: Blocks, b: Blocks, flip: int | None
) -> tuple[Tensor, Tensor]:
    """How much each pair of neurons of an axis adds to the inner product if they are matched.

    Every other axis is matched index by index. Where a block carries the axis twice, its product is
    linearised: each occurrence is matched in turn.

    Args:
        keys: the blocks that count; those without the axis add nothing.
        a, b: blocks ``(B, *view)``.
        flip: the scaling by which neurons of ``b`` may change their signs; ``None`` for none.

    Returns:
        Gains that a flip leaves alone, and those that it turns around, ``(B, *sizes of the family, n, n)``:
        the neuron of ``a``, then that of ``b``.
    """
    family = spec.axes[axis].family
    like = next(iter(a.values()))
    sizes = (*(spec.axes[name].size for name in family), *[spec.axes[axis].size] * 2)
    parts = [like.new_zeros(like.shape[0], *sizes) for _ in range(2)]
    for key in keys:
        axes = spec.block(key).block.axes
        for dim in (dim for dim, name in enumerate(axes) if name == axis):
            members = [axes.index(name) for name in family]
            parts[_turns(spec, flip, key, dim)] += _pairs(a[key], b[key], members, (dim,))
    return parts[0], parts[1]


def member_gains(
    spec: WeightSpec, member: str, keys: Iterable[str], a: Blocks, b: Blocks, flip: int | None
) -> tuple[Tensor, Tensor]:
    """The same for a family's neurons, for each pair of indices of the last axis that it is over.

    Returns:
        ``(B, *sizes of the rest of the family, m, m, n, n)``, twice as :func:`gains`.
    """
    *rest, over = spec.axes[member].family
    like = next(iter(a.values()))
    outer, inner = spec.axes[over].size, spec.axes[member].size
    sizes = (*(spec.axes[name].size for name in rest), outer, outer, inner, inner)
    parts = [like.new_zeros(like.shape[0], *sizes) for _ in range(2)]
    for key in keys:
        axes = spec.block(key).block.axes
        for dim in (dim for dim, name in enumerate(axes) if name == member):
            members = [axes.index(name) for name in rest]
            parts[_turns(spec, flip, key, dim)] += _pairs(a[key], b[key], members, (axes.index(over), dim))
    return parts[0], parts[1]


def _pairs(a: Tensor, b: Tensor, kept: list[int], paired: tuple[int, ...]) -> Tensor:
    """Sum ``a * b`` over all dimensions of the view but the ``kept`` ones, with ``paired`` ones apart."""
    labels = list(range(a.dim()))
    others = {dim + 1: a.dim() + i for i, dim in enumerate(paired)}
    made = [0, *(dim + 1 for dim in kept)]
    for dim in paired:
        made += [dim + 1, others[dim + 1]]
    return torch.einsum(a, labels, b, [others.get(label, label) for label in labels], made)


def _turns(spec: WeightSpec, flip: int | None, key: str, dim: int) -> bool:
    """Whether a flip changes the sign of this block along this dimension."""
    if flip is None:
        return False
    return any(
        exponent.key == key and exponent.dim in (None, dim) and exponent.power % 2
        for exponent in spec.scalings[flip].exponents
    )
