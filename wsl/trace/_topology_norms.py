"""Norms and gates that are written out: a node set times what it alone determines."""

from __future__ import annotations

from collections import Counter

from wsl.trace._topology_nodes import Node, consumers_of

_SQUARES = ("pow", "square")
_GATES = {
    frozenset({"sigmoid"}): "silu",
    frozenset({"erf"}): "gelu",
    frozenset({"tanh"}): "gelu",
    frozenset({"tanh", "pow"}): "gelu",
    frozenset({"tanh", "softplus"}): "mish",
}
WRITTEN_OUT = frozenset(_GATES.values())


def fold_written_out(nodes: list[Node]) -> None:
    """Make one node set of each product ``x f(x)`` where nothing else reads ``f(x)`` or the steps to it.

    If ``f(x)`` has fewer axes than ``x`` it is a statistic, and the product a norm, such as RMSNorm; else it
    is an activation function, such as GELU.
    """
    consumers = {node: {target for target, _ in leaving} for node, leaving in consumers_of(nodes).items()}
    for product in nodes:
        if product.kind != "product" or len(product.identities) != 2:
            continue
        for x in sorted(product.identities, key=lambda node: node.order):
            (factor,) = product.identities - {x}
            if Counter(x.axes) != Counter(product.axes) or not Counter(factor.axes) <= Counter(x.axes):
                continue
            steps = _steps(factor, x)
            if steps and all(consumers[node] <= steps | {product} for node in steps):
                is_norm = len(factor.axes) < len(x.axes)
                product.kind, product.activation = "apply", (_norm if is_norm else _gate)(steps)
                product.drop_identities(factor)
                break


def _norm(steps: set[Node]) -> str:
    squares = any(node.origin.operator in _SQUARES or node.kind == "product" for node in steps)
    return "rms_norm" if squares else "norm"


def _gate(steps: set[Node]) -> str:
    names = {node.activation or node.origin.operator for node in steps if node.kind in ("apply", "function")}
    return _GATES.get(frozenset(names), "gated")


def _steps(factor: Node, x: Node) -> set[Node]:
    """The node sets from ``x`` to ``factor``; none if anything else, or any weight, has a part in it."""
    found = {factor}
    pending = [factor]
    while pending:
        node = pending.pop()
        if node.blocks or node.is_output or not node.identities:
            return set()
        fresh = node.identities - found - {x}
        found |= fresh
        pending += fresh
    return found
