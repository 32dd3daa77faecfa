"""The text form of node sets and edges."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from wsl.spec._text import continue_line, join_entries, parse_entries
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


def format_edges(edges: Iterable[Edge]) -> Iterator[str]:
    """Write the lines of edges: ``edge:  h1 h1.2 conv2.weight``, with ``-`` for no source.

    All blocks between two node sets that follow one another share a line, each with its ends where they are
    not the default; an identity, which has no block, has a line of its own.
    """
    for (source, target, has_block), group in groupby(edges, lambda e: (e.source, e.target, bool(e.block))):
        start = f"edge:  {source or _NO_SOURCE} {target}"
        if has_block:
            yield continue_line(
                start,
                (f"{edge.block} {_ENDS}{edge.ends}" if edge.ends else str(edge.block) for edge in group),
            )
        else:
            yield from (start for _ in group)


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


def parse_edges(words: list[str]) -> Iterator[Edge]:
    """Read ``h1 h1.2 conv2.weight ends=ts scale``: an edge for each block, or an identity without blocks."""
    if len(words) < 2:
        raise _malformed_edge(words)
    source, target = None if words[0] == _NO_SOURCE else words[0], words[1]
    edges: list[Edge] = [] if len(words) > 2 else [Edge(source, target)]
    for word in words[2:]:
        if not word.startswith(_ENDS):
            edges.append(Edge(source, target, word))
        elif edges and edges[-1].ends is None:
            edges[-1] = replace(edges[-1], ends=word.removeprefix(_ENDS))
        else:
            raise _malformed_edge(words)
    return iter(edges)


def _malformed_edge(words: list[str]) -> SpecError:
    return SpecError(
        f"expected 'source target [block [ends=…]] …' after 'edge:', got {' '.join(words)!r}; "
        f"the source of what belongs to nodes is '{_NO_SOURCE}'."
    )
