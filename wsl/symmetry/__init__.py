"""The symmetry group of a weight space: permutations of hidden axes, positive scalings, sign flips, GL(n).

A group element permutes first and scales then. Along a hidden axis with permutation ``p`` and factors ``s``,
which enter the block at hand with power ``e``, ``apply`` makes

    new[..., i, ...] = s[i] ** e * old[..., p[i], ...]

Where the axis is a family over other axes, it has a permutation and factors for each combination of their
(new) indices: with R a family over (B, A), and A one over B,

    new[..., b, a, r, ...] = s[b, a, r] ** e * old[..., p_B[b], p_A[b, a], p_R[b, a, r], ...]

These are wreath products. Hence ``compose(g, h)`` has ``p_h`` and ``s_h`` moved by ``g`` like any block that
carries the axis and its family. Everything is batched: network ``b`` is moved by its own element.
"""

from wsl.symmetry._action import Action
from wsl.symmetry._apply import apply, apply_to_features, apply_to_nodes
from wsl.symmetry._group import compose, identity, inverse
from wsl.symmetry._sample import sample

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
