"""Normalisations that are written out: a node set times a statistic of itself."""

from __future__ import annotations

from collections import Counter

from wsl.trace._topology_nodes import Node, consumers_of

_SQUARES = ("pow", "square")


def fold_norms(nodes: list[Node]) -> None:
    """Make one node set of each product of nodes with a statistic that nothing else reads, as in RMSNorm."""
    consumers = {node: {target for target, _ in leaving} for node, leaving in consumers_of(nodes).items()}
    for product in nodes:
        if product.kind != "product" or len(product.identities) != 2:
            continue
        for x in product.identities:
            (statistic,) = product.identities - {x}
            if Counter(statistic.axes) < Counter(x.axes) and not Counter(x.axes) - Counter(product.axes):
                steps = _steps(statistic, x)
                if steps and all(consumers[node] <= steps | {product} for node in steps):
                    squares = any(
                        node.origin.operator in _SQUARES or node.kind == "product" for node in steps
                    )
                    product.kind, product.activation = "apply", "rms_norm" if squares else "norm"
                    product.drop_identities(statistic)
                    break


def _steps(statistic: Node, x: Node) -> set[Node]:
    """The node sets from ``x`` to ``statistic``; none if anything else, or any weight, has a part in it."""
    found = {statistic}
    pending = [statistic]
    while pending:
        node = pending.pop()
        if node.blocks or node.is_output or not node.identities:
            return set()
        fresh = node.identities - found - {x}
        found |= fresh
        pending += fresh
    return found
