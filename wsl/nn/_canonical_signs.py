"""One representative of all networks that differ by the signs of odd hidden neurons."""

from collections.abc import Mapping

import torch
from torch import Tensor

from wsl import symmetry
from wsl.spec import Scaling, WeightSpec


def canonical_signs(spec: WeightSpec, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Flip the sign of every neuron with an odd activation such that its bias is not negative.

    The function of the networks stays, and all sign flips of one network become the same network: what an
    encoder makes of it is invariant to them. Where an axis has no bias, the sum of a neuron's weights in the
    first block that the scaling names decides. The choice jumps where that number is zero.

    Args:
        spec: the specification, with its ``sign`` scalings; others are left alone.
        weights: ``(B, *shape)``.

    Returns:
        Weights of the same orbit; differentiable.
    """
    moved = dict(weights)
    for index, scaling in enumerate(spec.scalings):
        key = _deciding_block(spec, scaling)
        if scaling.kind != "sign" or key is None:
            continue
        block = spec.split(moved)[key]
        axes = next(ref.block.axes for ref in spec.blocks if ref.key == key)
        rows = block.detach().movedim(axes.index(scaling.axis) + 1, 1)
        totals = rows.reshape(*rows.shape[:2], -1).sum(2)
        signs = torch.where(totals < 0, -1.0, 1.0).to(block.dtype)
        moved = symmetry.apply(spec, symmetry.Action(scales={index: signs}), moved)
    return moved


def _deciding_block(spec: WeightSpec, scaling: Scaling) -> str | None:
    axes = {ref.key: ref.block.axes for ref in spec.blocks}
    odd = [key for key, power in scaling.exponents if power % 2]
    biases = [key for key in odd if axes[key] == (scaling.axis,)]
    return next(iter(biases + odd), None)
