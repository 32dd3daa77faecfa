"""What is known of each operator of torch, by the operator's name without overload and in-place mark.

A rule runs after its operator and says two things once. It gives the outputs their dims, and makes dims equal
that the operator indexes together: that is all that permutations need. And it records facts (see
:mod:`wsl.trace._facts`): how each output depends on the operands, in homogeneity and parity, with labels that
tell which dimensions are indexed together and, where the output lacks a label, which are summed over. A rule
that cannot describe its arguments raises :class:`~wsl.trace._recorder.Unsupported`; then, as for operators
without a rule, everything is fixed. In-place and ``out=`` variants use the same rule.
"""

from wsl.trace._recorder import Rule
from wsl.trace.rules import (
    arithmetic,
    attention,
    convolution,
    diagonal,
    elementwise,
    factory,
    gating,
    indexing,
    linear,
    multilinear,
    normalization,
    ordering,
    parts,
    pooling,
    reduction,
    sampling,
    scattering,
    shape,
    spectral,
    strides,
    windows,
)

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **arithmetic.RULES,
    **linear.RULES,
    **convolution.RULES,
    **normalization.RULES,
    **pooling.RULES,
    **reduction.RULES,
    **ordering.RULES,
    **shape.RULES,
    **parts.RULES,
    **factory.RULES,
    **gating.RULES,
    **windows.RULES,
    **spectral.RULES,
    **strides.RULES,
    **scattering.RULES,
    **sampling.RULES,
    **multilinear.RULES,
    **indexing.RULES,
    **diagonal.RULES,
    **attention.RULES,
}

__all__ = ["RULES"]
