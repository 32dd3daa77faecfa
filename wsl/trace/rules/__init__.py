"""What is known of each operator of torch, by the operator's name without overload and in-place mark."""

from wsl.trace._recorder import Rule
from wsl.trace.rules import (
    arithmetic,
    convolution,
    elementwise,
    factory,
    gating,
    linear,
    normalization,
    parts,
    pooling,
    reduction,
    shape,
)

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **arithmetic.RULES,
    **linear.RULES,
    **convolution.RULES,
    **normalization.RULES,
    **pooling.RULES,
    **reduction.RULES,
    **shape.RULES,
    **parts.RULES,
    **factory.RULES,
    **gating.RULES,
}

__all__ = ["RULES"]
