"""The story of one stored dimension, in words: for people who debug a specification."""

import difflib
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from wsl.spec._dims import factors_of
from wsl.spec._family import format_use
from wsl.spec._text import format_dim, format_tensor
from wsl.spec._topology import NodeSet
from wsl.spec._values import Axis, SpecError

if TYPE_CHECKING:
    from wsl.spec._weight_spec import WeightSpec

_WIDTH = 110
_KINDS = {
    "hidden": "hidden: they may be reordered",
    "input": "input: they stay in place, as the inputs do",
    "output": "output: they stay in place, as the outputs do",
    "fixed": "fixed: they stay in place",
}
_SCALINGS = {
    "linear": "any invertible matrix may act on them",
    "positive": "positive factors may rescale them",
    "sign": "their signs may be flipped",
}


def explain(spec: "WeightSpec", tensor: str, dim: int) -> str:
    """The text of :meth:`WeightSpec.explain`."""
    if tensor not in spec.tensors:
        near = difflib.get_close_matches(tensor, spec.tensors, n=8, cutoff=0.4) or list(spec.tensors)[:8]
        raise SpecError(f"the spec has no tensor {tensor!r}; it has, among others, {', '.join(near)}.")
    stored = spec.tensors[tensor]
    if not -len(stored.dims) <= dim < len(stored.dims):
        dims = ", ".join(f"{i} is {format_dim(d, spec.axes)}" for i, d in enumerate(stored.dims))
        raise SpecError(f"{tensor} has no dimension {dim!r}; its dimensions: {dims or 'none'}.")
    dim %= len(stored.dims)
    lines = [f"dimension {dim} of {format_tensor(tensor, stored, spec.axes)}"]
    factors = list(factors_of(stored.dims[dim]))
    if len(factors) > 1:
        lines.append(f"{format_dim(stored.dims[dim], spec.axes)}: size {stored.shape[dim]}, of these parts")
    for name in dict.fromkeys(factor for factor in factors if isinstance(factor, str)):
        lines += _axis_story(spec, spec.axes[name])
    if sizes := [str(factor) for factor in factors if isinstance(factor, int)]:
        lines.append(f"{', '.join(sizes)}: positions, as of a kernel or of pixels, which index no neurons")
    return "\n".join(lines)


def _axis_story(spec: "WeightSpec", axis: Axis) -> Iterator[str]:
    yield f"{format_use(axis.name, spec.axes)}: {axis.size} neurons, {_KINDS[axis.kind]}"
    yield from _item("because", (note.reason for note in spec.notes if note.axis == axis.name), "; ")
    yield from _item("in another order for each index of", axis.family)
    inner = [other.name for other in spec.axes.values() if axis.name in other.family]
    yield from _item("each with its own order of", inner)
    if axis.scaling:
        yield f"  {_SCALINGS[axis.scaling]}" + (f", through {axis.activation}" if axis.activation else "")
        for scaling in spec.scalings:
            if scaling.axis == axis.name:
                yield from _item(f"  {scaling.kind}", map(str, scaling.exponents), " ")
    sets = [node for node in spec.topology.nodes if axis.name in node.axes]
    for node in sets:
        if node.axes[-1] == axis.name:
            yield from _node_story(spec, node)
    yield from _item("crossed with others in node sets", (n.name for n in sets if n.axes[-1] != axis.name))
    connected = {edge.block for edge in spec.topology.edges}
    elsewhere = [key for key, _, block in spec.blocks if axis.name in block.axes and key not in connected]
    yield from _item("in tensors that no edge has", elsewhere)


def _node_story(spec: "WeightSpec", node: NodeSet) -> Iterator[str]:
    """What comes in at a node set, what it holds and what reads it."""
    axes = f" of ({' '.join(node.axes)})" if (node.name,) != node.axes else ""
    yield f"  node set {node.name}{axes}" + (f", read after {node.activation}" if node.activation else "")
    edges = spec.topology.edges
    made = [
        f"{edge.block or 'an identity'} from {edge.source}"
        for edge in edges
        if edge.source and edge.target == node.name
    ]
    held = [str(edge.block) for edge in edges if not edge.source and edge.target == node.name]
    read = [f"{edge.block or 'an identity'} into {edge.target}" for edge in edges if edge.source == node.name]
    yield from _item("  made by", made)
    yield from _item("  with", held)
    yield from _item("  read by", read)


def _item(label: str, words: Iterable[str], separator: str = ", ") -> Iterator[str]:
    """``label`` and the words, wrapped between words; nothing if there are none."""
    text = separator.join(words)
    if text:
        yield from textwrap.wrap(
            f"  {label}: {text}",
            _WIDTH,
            subsequent_indent="        ",
            break_long_words=False,
            break_on_hyphens=False,
        )
