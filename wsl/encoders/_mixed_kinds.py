"""Kinds of blocks that architectures have in common, and standardisation by them."""

from collections.abc import Iterable
from functools import lru_cache

from wsl.graph import ROLES, graph_layout
from wsl.spec import WeightSpec

_ENDS = ("hidden", "input", "output", "fixed")


def _name(role: str, target: str | None, source: str | None) -> str:
    return " ".join([role, *([f"of {target}"] if target else []), *([f"from {source}"] if source else [])])


WEIGHT_KINDS: tuple[str, ...] = tuple(
    _name(role, target, source)
    for role in ROLES
    for target, source in (
        (None, None),
        *((end, None) for end in _ENDS),
        *((end, start) for end in _ENDS for start in _ENDS),
    )
)
"""Every value that :func:`weight_kinds` can give, e.g. ``weight of hidden from input``."""


@lru_cache(maxsize=1024)
def weight_kinds(spec: WeightSpec) -> tuple[str, ...]:
    """The kind of each block, in the order of ``spec.blocks``, one of :data:`WEIGHT_KINDS`.

    A block's kind is its role (weight, bias, ...) and whether the nodes at the ends of its first use are
    hidden, input, output or fixed ones: what layers of different depths and widths, in different
    architectures, have in common. A SIREN's first layer, whose weights are much larger, is one of its own.
    """
    layout = graph_layout(spec)
    kinds = []
    for block in layout.blocks:
        ends: Iterable[str] = (layout.kinds[end.nodes] for end in (block.uses[0].ends if block.uses else ()))
        target, source = (*ends, None, None)[:2]
        kinds.append(_name(block.role, target, source))
    return tuple(kinds)
