"""What is known of each operator of torch, by the operator's name without overload and in-place mark."""

from wsl.trace._recorder import Rule
from wsl.trace.rules import (
    convolution,
    elementwise,
    factory,
    linear,
    normalization,
    pooling,
    reduction,
    shape,
)

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **linear.RULES,
    **convolution.RULES,
    **normalization.RULES,
    **pooling.RULES,
    **reduction.RULES,
    **shape.RULES,
    **factory.RULES,
}

__all__ = ["RULES"]
