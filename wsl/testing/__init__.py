"""Public assertions for tests of modules, specifications, encoders and heads; all in float64.

    assert_preserves_function(module, spec, example_inputs)    # the group of spec leaves the function alone
    assert_equivariant(encoder.double(), spec)                 # weights or features out: they move along
    assert_invariant(classifier.double(), spec)                # anything else out: it stays

Use :func:`random_specs` to state the last two for every kind of specification.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wsl.spec import WeightSpec
from wsl.testing._assertions import assert_equivariant, assert_invariant, assert_preserves_function
from wsl.testing._mutations import mutations
from wsl.testing._weights import random_weights

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = [
    "assert_equivariant",
    "assert_invariant",
    "assert_preserves_function",
    "mutations",
    "random_specs",
    "random_weights",
]


def random_specs(kinds: Sequence[str] | None = None, *, max_size: int = 6) -> "SearchStrategy[WeightSpec]":
    """A hypothesis strategy of small specifications, of every kind that an encoder has to cope with.

    Args:
        kinds: which; by default all: ``mlp`` (1 to 4 layers, biases missing, scalings), ``cnn`` (1 to 3
            dimensions, norms, flatten), ``residual`` (one shared axis), ``concat`` (sums of axes),
            ``depthwise``, ``grouped`` (products, three neuron axes in a block), ``recurrent`` (an axis
            twice in a block, gates), ``packed`` (sums of products, a scalar), ``interleaved`` (sums within
            products), ``fixed`` (a fixed axis with its note), ``bilinear`` (three neuron axes, none of them
            shared), ``attention`` (families over heads, grouped queries, linear scalings), ``groups``
            (families over groups), ``experts`` (nested families, one over a fixed axis), ``lstm`` (signs
            along an axis that occurs twice), ``skip`` (node sets and identity edges), ``low_rank`` (a
            linear scaling).
        max_size: of an axis; sizes start at 1.
    """
    from wsl.testing._random_specs import random_specs as strategy  # hypothesis is an optional dependency

    return strategy(kinds, max_size)
