"""What a row of the tables of architectures says."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from torch import nn

from wsl.spec import WeightSpec


class Known(NamedTuple):
    """A network with its group, derived by hand.

    Args:
        axes: sizes of the hidden axes: ``3`` permutes three neurons; ``4|3`` four neurons for each of three
            indices of another axis, independently; ``4|2,3`` for each combination; ``16^2`` stands for two.
        text: the whole specification, for small networks; its topology is left to other tests. Scalings of an
            axis that those of a family over it contain are not repeated.
        output: what has to be preserved, where that is not everything that the network returns.
        dull: blocks that do not matter along some axis, as ``"attend.in_proj_bias[1] along d1"``, and why.
        missing: what the whole group has beyond what a specification can express, or the tracer finds.
    """

    build: Callable[[], nn.Module]
    inputs: Callable[[], object]
    axes: str
    text: str | None = None
    output: Callable[[object], object] | None = None
    dull: tuple[str, ...] = ()
    missing: str = ""


def written_axes(text: str) -> Counter[str]:
    """The multiset that ``Known.axes`` writes."""
    found: Counter[str] = Counter()
    for word in text.split():
        axis, _, count = word.partition("^")
        found[axis] += int(count or 1)
    return found


def hidden_axes(spec: WeightSpec) -> Counter[str]:
    """The same multiset for the hidden axes of a specification."""
    sizes = {axis.name: axis.size for axis in spec.axes.values()}
    return Counter(
        f"{axis.size}|{','.join(str(sizes[name]) for name in axis.family)}" if axis.family else str(axis.size)
        for axis in spec.hidden_axes
    )
