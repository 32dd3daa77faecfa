"""The text form of node sets and edges."""

import re
from collections.abc import Iterable, Iterator

from wsl.spec._text import join_entries, parse_entries
from wsl.spec._topology import Edge, NodeSet
from wsl.spec._values import SpecError

_NO_SOURCE = "-"
_ENDS = "ends="


def format_nodes(nodes: Iterable[NodeSet]) -> Iterator[str]:
    """Write the lines that declare node sets: ``nodes   h1: h1 relu   a: (h1 d1) softmax``."""
    entries = []
    for node in nodes:
        axes = node.axes[0] if len(node.axes) == 1 else f"({' '.join(node.axes)})"
        entries.append(f"{node.name}: {axes}" + (f" {node.activation}" if node.activation else ""))
    return join_entries("nodes", entries) if entries else iter(())


def format_edge(edge: Edge) -> str:
    """Write the line of one edge: ``edge:  h1 h1.2 conv2.weight``, with ``-`` for no source."""
    words = [edge.source or _NO_SOURCE, edge.target, edge.block, edge.ends and f"{_ENDS}{edge.ends}"]
    return "edge:  " + " ".join(word for word in words if word)


def parse_nodes(words: list[str]) -> Iterator[NodeSet]:
    """Read ``h1: h1 relu  a: (h1 d1) softmax …``."""
    for name, rest in parse_entries(words, "nodes"):
        text = " ".join(rest)
        match = re.fullmatch(r"(?:\(([^()]*)\)|([^\s()]+))(?: (\S+))?", text)
        if match is None:
            raise SpecError(
                f"node set {name} is declared as {text!r}; expected 'axis [activation]' or '(a b) …'."
            )
        axes = (match[2],) if match[2] else tuple(match[1].split())
        yield NodeSet(name, axes, match[3])


def parse_edge(words: list[str]) -> Edge:
    """Read ``h1 h1.2 conv2.weight ends=ts``."""
    ends = words[3].removeprefix(_ENDS) if len(words) == 4 and words[3].startswith(_ENDS) else None
    if not 2 <= len(words) <= 3 + (ends is not None):
        raise SpecError(
            f"expected 'source target [block [ends=…]]' after 'edge:', got {' '.join(words)!r}; "
            f"the source of what belongs to nodes is '{_NO_SOURCE}'."
        )
    source = None if words[0] == _NO_SOURCE else words[0]
    return Edge(source, words[1], words[2] if len(words) > 2 else None, ends)
