"""What a labelled fact makes of one cell of its output: a node set of its own, or one that is passed on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wsl.trace._facts import Add, Apply, Multiply
from wsl.trace._topology_build import Builder
from wsl.trace._topology_cells import NeuronCell
from wsl.trace._topology_content import Content, Labels, Plain, Term, operator_word, same_axes
from wsl.trace._topology_nodes import Kind, Node
from wsl.trace._topology_weights import Strand, Weave, moved, weave


class _Joint(NamedTuple):
    """Operands' cells that enter the output together."""

    nodes: list[Term]
    weights: list[tuple[Term, Weave]]
    has_zero: bool
    has_input: bool


_NORMS = {
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit"), "batch_norm"),
    "_fused_rms_norm": "rms_norm",
    "rms_norm": "rms_norm",
}
_KEEPING = ("add", "sub", "rsub", "masked_fill", "where", "nan_to_num")  # with a number, or a mask


def relate(
    builder: Builder,
    fact: Multiply | Add | Apply,
    labels: Labels,
    cell: NeuronCell,
    joint: Iterable[Sequence[Term]],
) -> Content:
    """The content of the output's ``cell``, given the operands' cells that enter it together."""
    parts = [_sort(terms) for terms in joint]
    if not any(part.nodes for part in parts):
        return _without_nodes(builder, fact, labels, cell, parts)
    parts = [_awake(builder, part) for part in parts]
    if isinstance(fact, Multiply):
        return _multiply(builder, labels, cell, parts)
    if isinstance(fact, Add):
        return _add(builder, fact, labels, cell, parts)
    return _apply(builder, fact, labels, cell, parts)


def _sort(terms: Iterable[Term]) -> _Joint:
    nodes, weights = [], []
    has_zero = has_input = False
    for term in terms:
        if isinstance(term.content, Weave):
            weights.append((term, term.content))
        elif isinstance(term.content, Node) or _is_input(term):
            nodes.append(term)
        has_zero |= term.content is Plain.ZERO
        has_input |= term.content is Plain.INPUT
    return _Joint(nodes, weights, has_zero, has_input)


def _awake(builder: Builder, part: _Joint) -> _Joint:
    """What a recurrence makes of zeros at its first step are neurons, as at every other step."""
    if not part.nodes or not any(strand.dormant for _, woven in part.weights for strand in woven.strands):
        return part
    spun = [Term(term.place, spin(builder, woven, term.cell), term.cell) for term, woven in part.weights]
    return part._replace(nodes=[*part.nodes, *spun], weights=[])


def _without_nodes(
    builder: Builder, fact: Multiply | Add | Apply, labels: Labels, cell: NeuronCell, parts: list[_Joint]
) -> Content:
    """Of weights come weights, of inputs inputs, of constants constants."""
    product = isinstance(fact, Multiply)
    strands = [
        moved(strand, term.cell, cell, labels.aligned[term.place])._replace(
            dormant=strand.dormant or (product and part.has_zero)
        )
        for part in parts
        for term, woven in part.weights
        for strand in woven.strands
    ]
    if strands:
        woven = weave(strands)
        if isinstance(fact, Apply) and fact.name and sum(strand.lost > 0 for strand in woven.strands) > 1:
            return spin(builder, woven, cell, fact.name)
        return woven
    if any(part.has_input for part in parts):
        return Plain.INPUT
    zero = all(part.has_zero for part in parts) and (product or len(labels.operands) == 1)
    return Plain.ZERO if zero and not isinstance(fact, Apply) else Plain.CONSTANT


def spin(builder: Builder, woven: Weave, cell: NeuronCell, activation: str | None = None) -> Node:
    """Neurons that weights alone determine, such as a class token."""
    node = builder.node("apply" if activation else "affine", cell.axes, activation)
    letters = [
        (strand, tuple(None if place is None else "t" for place in strand.places)) for strand in woven.strands
    ]
    builder.connect(None, node, letters)
    return node


def neurons(builder: Builder, term: Term) -> Node:
    """The node set of a term."""
    return term.content if isinstance(term.content, Node) else builder.inputs(term.cell.own)


def pass_on(builder: Builder, cell: NeuronCell, terms: Sequence[Term], kind: Kind = "sum") -> Content:
    """What ``terms`` hold, if that is one node set and its axes are those of ``cell``; else their sum."""
    contents = list(dict.fromkeys(term.content for term in terms))
    if contents == [Plain.INPUT]:
        return Plain.INPUT
    if len(contents) == 1 and isinstance(contents[0], Node) and same_axes(contents[0].axes, cell.axes):
        return contents[0]
    return _gather(builder, kind, cell, terms)


def _gather(
    builder: Builder, kind: Kind, cell: NeuronCell, terms: Sequence[Term], activation: str | None = None
) -> Node:
    """A new node set with identity edges from ``terms``."""
    sources = [(neurons(builder, term), term.place) for term in terms]
    node = builder.node(kind, cell.axes, activation)
    for source, place in sources:
        builder.identity(source, node, place)
    return node


def _attach(builder: Builder, node: Node, labels: Labels, parts: Iterable[_Joint]) -> Node:
    """Let the weights of ``parts`` belong to ``node``."""
    strands = [
        (strand, labels.letters(term, strand, None))
        for part in parts
        for term, woven in part.weights
        for strand in woven.strands
    ]
    builder.connect(None, node, strands)
    return node


def _multiply(builder: Builder, labels: Labels, cell: NeuronCell, parts: list[_Joint]) -> Content:
    live = [part for part in parts if part.nodes]
    rest = [part for part in parts if not part.nodes and part.weights]
    terms = [term for part in live for term in part.nodes]
    several = any(len(part.nodes) > 1 or part.has_zero for part in live)
    weighted = any(part.weights for part in live)
    if not (several or weighted):
        passed = pass_on(builder, cell, terms)
        if not rest:
            return passed
        return _attach(builder, _gather(builder, "sum", cell, terms), labels, rest)
    elementwise = not several and all(
        labels.is_elementwise(term, part.nodes[0].place) for part in live for term, _ in part.weights
    )
    sources = {neurons(builder, term) for term in terms}
    if elementwise and len(sources) == 1 and same_axes(next(iter(sources)).axes, cell.axes):
        return _attach(builder, _gather(builder, "affine", cell, terms), labels, parts)
    node = builder.node("product", cell.axes, "product") if several else builder.node("contract", cell.axes)
    for part in live:
        for term in part.nodes:
            strands = [
                (strand, labels.letters(other, strand, term.place))
                for other, woven in part.weights
                for strand in woven.strands
            ]
            if strands:
                builder.connect(neurons(builder, term), node, strands, term.place)
            else:
                builder.identity(neurons(builder, term), node, term.place)
    return _attach(builder, node, labels, rest)


def _add(builder: Builder, fact: Add, labels: Labels, cell: NeuronCell, parts: list[_Joint]) -> Content:
    terms = [term for part in parts for term in part.nodes]
    weighted = any(part.weights for part in parts)
    zero = any(part.has_zero for part in parts) and len(fact.operands) > 1
    if not weighted and not zero:
        return pass_on(builder, cell, terms)
    sources = {neurons(builder, term) for term in terms}
    alone = len(sources) == 1 and same_axes(next(iter(sources)).axes, cell.axes)
    kind: Kind = "affine" if alone and weighted else "sum"
    return _attach(builder, _gather(builder, kind, cell, terms), labels, parts)


def _apply(builder: Builder, fact: Apply, labels: Labels, cell: NeuronCell, parts: list[_Joint]) -> Content:
    terms = [term for part in parts for term in part.nodes]
    weighted = [part for part in parts if part.weights]
    mixing = None in labels.operands[0] or labels.operands[0] != labels.out
    name = fact.name or (_NORMS.get(builder.operator) if mixing and fact.parity == "odd" else None)
    if not weighted and not mixing and all(term.content is Plain.INPUT for term in terms):
        return Plain.INPUT
    if name is not None:
        return _attach(builder, _gather(builder, "apply", cell, terms, name), labels, weighted)
    if weighted:
        return _attach(builder, _gather(builder, "sum", cell, terms), labels, weighted)
    if mixing or builder.operator in _KEEPING:
        return pass_on(builder, cell, terms)
    return _gather(builder, "function", cell, terms)


def entangle(builder: Builder, cell: NeuronCell, terms: Sequence[Term], *, weight: bool) -> Content:
    """The content of ``cell``, which is an unknown function of all ``terms``; of weights, if ``weight``."""
    woven = [strand for term in terms if isinstance(term.content, Weave) for strand in term.content.strands]
    if weight:
        return weave(strand._replace(places=(None,) * len(strand.axes)) for strand in woven)
    sources = [term for term in terms if isinstance(term.content, Node) or _is_input(term)]
    if sources or woven:
        node = _gather(builder, "sum", cell, sources, operator_word(builder.operator))
        return _belong(builder, node, woven)
    return Plain.INPUT if any(term.content is Plain.INPUT for term in terms) else Plain.CONSTANT


def depend(builder: Builder, cell: NeuronCell, node: Node, terms: Sequence[Term], *, owned: bool) -> Node:
    """The node set ``node`` if it depends on ``terms`` as well; ``owned`` if nothing else has read it yet."""
    woven = [strand for term in terms if isinstance(term.content, Weave) for strand in term.content.strands]
    others = [term for term in terms if isinstance(term.content, Node) and term.content is not node]
    if others or (woven and not owned):
        node = _gather(builder, "choice" if others else "affine", cell, [Term(0, node, cell), *others])
    return _belong(builder, node, woven)


def _is_input(term: Term) -> bool:
    return term.content is Plain.INPUT and bool(term.cell.own)


def _belong(builder: Builder, node: Node, strands: Iterable[Strand]) -> Node:
    for strand in strands:
        builder.connect(None, node, [(strand, (None,) * len(strand.axes))])
    return node
