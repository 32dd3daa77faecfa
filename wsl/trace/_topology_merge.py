"""From provisional node sets to few: equal ones are merged, and steps that belong to one layer are folded."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from wsl.trace._topology_build import Builder
from wsl.trace._topology_cells import AxisTuple
from wsl.trace._topology_content import operator_word, same_axes
from wsl.trace._topology_nodes import Entry, Kind, Node, consumers_of, settle
from wsl.trace._topology_norms import fold_written_out

Consumers = dict[Node, list[tuple[Node, Entry]]]


def simplify(builder: Builder) -> list[Node]:
    """The node sets of the network, in the order of the forward pass."""
    _merge(_repeat(_prune(settle(builder.nodes)), _fold_fresh))
    builder.wake()
    nodes = _prune(settle(builder.nodes))
    while True:
        count = len(nodes)
        for fold in (_fold_affine, _fold_linear, _fold_function, _skip_copies):
            nodes = _repeat(nodes, fold)
        fold_written_out(nodes)
        nodes = _merge(_prune(nodes))
        if len(nodes) == count:
            return nodes


def _prune(nodes: list[Node]) -> list[Node]:
    """Without node sets that lead nowhere and have no weights, such as the moments of a norm."""
    live = {node for node in nodes if node.is_output or node.blocks}
    pending = list(live)
    while pending:
        for entry in pending.pop().entries:
            if entry.source is not None and entry.source.root not in live:
                live.add(entry.source.root)
                pending.append(entry.source.root)
    return [node for node in nodes if node in live]


class _Fold:
    """One pass over all node sets, in which each may become part of one that it feeds, or is fed by."""

    def __init__(self, nodes: list[Node]) -> None:
        self.consumers: Consumers = consumers_of(nodes)
        self.changed = False

    def only_consumer(self, node: Node) -> Node | None:
        """The one node set that ``node`` feeds, if it does so by an identity and feeds nothing else."""
        leaving = self.consumers.get(node, [])
        targets = {target.root for target, _ in leaving}
        if node.is_output or len(targets) != 1 or any(entry.block is not None for _, entry in leaving):
            return None
        target = targets.pop()
        return target if target is not node and same_axes(node.axes, target.axes) else None

    def unite(self, source: Node, target: Node) -> Node:
        """Make one node set of both."""
        leaving = [*self.consumers.pop(source, []), *self.consumers.pop(target, [])]
        kind, activation = target.kind, target.activation
        target.drop_identities(source)
        whole = source.join(target)
        whole.kind, whole.activation = kind, activation
        self.consumers[whole] = [(t, entry) for t, entry in leaving if t.root is not whole or entry.block]
        self.changed = True
        return whole


def _repeat(nodes: list[Node], fold: Callable[[_Fold, Node], None]) -> list[Node]:
    """Pass over the node sets until nothing changes."""
    while True:
        state = _Fold(nodes)
        for node in nodes:
            if node.parent is None:
                fold(state, node)
        nodes = settle(nodes)
        if not state.changed:
            return nodes


def _fold_fresh(state: _Fold, node: Node) -> None:
    """A contraction, and weights at its neurons, into the sum that alone reads it.

    Others wait until time steps are merged, because the last step is read by fewer operators.
    """
    if node.kind == "contract" or (node.kind == "affine" and not node.is_map):
        _fold_linear(state, node, into=("affine", "sum"))


def _fold_linear(state: _Fold, node: Node, into: tuple[Kind, ...] = ("affine", "sum", "choice")) -> None:
    """A linear node set into the weights or the sum that alone read it."""
    if node.is_linear:
        target = state.only_consumer(node)
        if target is not None and target.activation is None and target.kind in into:
            state.unite(node, target)


def _fold_function(state: _Fold, node: Node) -> None:
    """A linear node set, or inputs, into the non-linearity that alone reads it."""
    if not (node.is_linear or node.kind == "origin"):
        return
    target = state.only_consumer(node)
    if target is None or target.kind not in ("apply", "function") or target.identities != {node}:
        return
    several = node.kind in ("sum", "choice") and len(node.identities) > 1
    whole = state.unite(node, target)
    if whole.kind == "function" and several:
        whole.activation = operator_word(target.origin.operator)
    whole.kind = "apply"


def _fold_affine(state: _Fold, node: Node) -> None:
    """Weights at each neuron into the node set that they alone read."""
    target = state.only_consumer(node)
    if target is not None and target.kind == "affine" and target.identities == {node}:
        kind, activation = node.kind, node.activation
        whole = state.unite(node, target)
        whole.kind, whole.activation = kind, activation


def _skip_copies(state: _Fold, node: Node) -> None:
    """A sum or choice of one node set is that node set."""
    if node.kind not in ("sum", "choice") or node.activation is not None or node.blocks:
        return
    sources = node.identities - ({node} if node.kind == "choice" else set())
    if len(sources) != 1:
        return
    source = sources.pop()
    if source is node:
        return
    if same_axes(source.axes, node.axes):
        node.drop_identities(node)
        kind, activation = source.kind, source.activation
        whole = state.unite(source, node)
        whole.kind, whole.activation = kind, activation
    elif not node.is_output and set(source.axes) < set(node.axes):
        _bypass(state, source, node)


def _bypass(state: _Fold, source: Node, node: Node) -> None:
    """Let readers of a broadcast copy read the original, where their weights index nothing that it lacks."""
    leaving = state.consumers.get(node, [])
    if not leaving or any(entry.block is not None for _, entry in leaving):
        return
    for target, entry in leaving:
        target = target.root
        target.entries = dict.fromkeys(
            e._replace(source=source) if e.source is not None and e.source.root is node else e
            for e in target.entries
        )
        state.consumers.setdefault(source, []).append((target, entry._replace(source=source)))
    state.consumers[source] = [(t, e) for t, e in state.consumers[source] if t.root is not node]
    state.consumers[node] = []
    node.entries = {}
    state.changed = True


def _merge(nodes: list[Node]) -> list[Node]:
    """Node sets that are the same by construction, such as time steps or a layer that is applied twice.

    Those with weights have the same ones. Functions have the same operand. Sums and products are computed by
    one line of code, and have an operand in common: gates are common to the time steps of a recurrence, but
    not to its products.
    """
    changed = True
    while changed:
        changed = False
        nodes = settle(nodes)
        first: dict[Hashable, Node] = {}
        for node in nodes:
            for key in _keys(node):
                root = node.root
                other = first.setdefault(key, root).root
                if other is not root and _agree(root.blocks, other.blocks):
                    first[key] = root.join(other)
                    changed = True
    return nodes


def _agree(a: frozenset[str], b: frozenset[str]) -> bool:
    """Whether node sets with these blocks may be the same: an initial state enters at one step only."""
    return a == b or not (a and b)


def _keys(node: Node) -> list[Hashable]:
    axes: AxisTuple = tuple(sorted(node.axes))
    keys: list[Hashable] = []
    if blocks := node.blocks:
        keys.append((axes, node.activation, node.is_map, blocks))
        if not node.is_map:
            return keys
    elif node.kind in ("apply", "function"):  # of one and the same operand it is the same, on whatever line
        return [(axes, node.kind, node.activation, node.origin[:2], frozenset(node.identities))]
    for entry in node.entries:
        if entry.source is not None:
            keys.append((axes, node.origin, entry.place, entry.source.root))
    return keys
