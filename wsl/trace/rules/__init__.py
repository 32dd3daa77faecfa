"""What is known of each operator of torch, by the operator's name without overload and in-place mark.

A rule runs after its operator and says three things, from which all else follows:

* which dims are the same axes: it gives the outputs their dims, makes dims equal that are indexed together,
  and fixes those whose order matters;
* which dims are mixed: in the facts that it records (see :mod:`wsl.trace._facts`), a dim of an operand whose
  label is ``None``, or missing from the output's labels, is one along which an output depends on every index;
* how each output depends on each operand: homogeneity and parity.

Each file says so for its family of operators. A rule that cannot describe its arguments raises
:class:`~wsl.trace._recorder.Unsupported`; then everything is fixed, as by operators that have neither a rule
nor a decomposition. In-place and ``out=`` variants use the same rule.
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
