"""How weights and neurons change sign under the sign flips of a specification."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from wsl.graph import End, GraphBlock, GraphLayout, Use
from wsl.nn._canonical import places_of
from wsl.spec import NodeSet

Slot = tuple[str | int, ...]
Character = frozenset[tuple[int, tuple[Slot, ...]]]  # scalings, and what indexes their factors
Message = Literal["product", "edge", "nothing"]
_Flips = set[tuple[int, tuple[int, ...]]]  # scalings, and which axes of a node set index their factors


@dataclass(frozen=True)
class SignCharacters:
    """Which blocks and node sets change sign, and along which edges signs agree.

    A state with a character is multiplied by a product of signs; one without, by nothing. What is added to a
    state must have its character.

    Args:
        blocks: keys of the blocks that change sign.
        nodes: names of the node sets whose neurons change sign.
        messages: for every block, for every end of every use, what may be added to the nodes there: the
            ``product`` of the states of an edge and of the node at its other end, if there is one; the state
            of the ``edge`` alone; or ``nothing``.
        identities: the same for the edges without weights, whose states have no character.
    """

    blocks: frozenset[str]
    nodes: frozenset[str]
    messages: Mapping[str, tuple[Message, ...]]
    identities: tuple[tuple[Message, ...], ...]


@lru_cache(maxsize=256)
def sign_characters(layout: GraphLayout) -> SignCharacters:
    """Derive the characters of an architecture.

    A neuron changes sign with a scaling if some block that feeds, shifts or reads it does so along it; where
    no block tells, if a neighbour on an edge without weights does.
    """
    own = _block_characters(layout)
    slots = {block.key: [_slots(layout, use, block) for use in block.uses] for block in layout.blocks}
    between = [_slots(layout, use, None) for use in layout.identities]
    flips = _node_flips(layout, own, slots, between)
    messages = {
        block.key: tuple(
            message
            for use, ends in zip(block.uses, slots[block.key], strict=True)
            for message in _messages(own[block.key], use, ends, flips)
        )
        for block in layout.blocks
    }
    identities = tuple(
        tuple(_messages(frozenset(), use, ends, flips))
        for use, ends in zip(layout.identities, between, strict=True)
    )
    return SignCharacters(
        frozenset(key for key, character in own.items() if character),
        frozenset(name for name, found in flips.items() if found),
        messages,
        identities,
    )


def _block_characters(layout: GraphLayout) -> dict[str, Character]:
    own: dict[str, Character] = {block.key: frozenset() for block in layout.blocks}
    for i, scaling in enumerate(layout.spec.scalings):
        if scaling.kind == "positive":
            continue
        for place in places_of(layout.spec, scaling):
            if place.power % 2:
                own[place.key] ^= {(i, tuple(("dim", dim - 1) for dim in place.dims))}
    return own


def _slots(layout: GraphLayout, use: Use, block: GraphBlock | None) -> list[dict[int, Slot]]:
    """For every end of a use, what indexes each axis of its node set: dimensions of a block; or, along edges
    without weights, an axis of both ends; or nothing but that end."""
    taken = [_covered(end, block) for end in use.ends]
    slots: list[dict[int, Slot]] = [
        dict(zip(end.order, dims, strict=False)) for end, dims in zip(use.ends, taken, strict=True)
    ]
    sets = {nodes.name: nodes.axes for nodes in layout.spec.topology.nodes}
    free = [end.order[len(dims) :] for end, dims in zip(use.ends, taken, strict=True)]
    names = [Counter(sets[end.nodes][i] for i in own) for end, own in zip(use.ends, free, strict=True)]
    common = (names[0] & names[-1]).total() if len(names) == 2 and block is None else 0
    for side, own in enumerate(free):
        for n, axis in enumerate(own):
            slots[side][axis] = ("common", n) if n < common else ("apart", side, n)
    return slots


def _covered(end: End, block: GraphBlock | None) -> list[Slot]:
    if block is None:
        return []
    dims, start = [], 0
    for group in block.groups:
        dims.append([("dim", dim) for dim in block.order[start : start + len(group)]])
        start += len(group)
    return [dim for g in [*([0] if block.batched else []), *end.groups] for dim in dims[g]]


def _node_flips(
    layout: GraphLayout,
    own: Mapping[str, Character],
    slots: Mapping[str, Sequence[list[dict[int, Slot]]]],
    between: Sequence[list[dict[int, Slot]]],
) -> dict[str, _Flips]:
    """For every node set the scalings that flip its neurons."""
    possible = {nodes.name: _possible_flips(layout, nodes) for nodes in layout.spec.topology.nodes}
    flips: dict[str, _Flips] = {name: set() for name in possible}
    heard: dict[str, _Flips] = {name: set() for name in possible}
    for block in layout.blocks:
        for use, ends in zip(block.uses, slots[block.key], strict=True):
            shared = set(ends[0].values()) & set(ends[1].values()) if len(ends) == 2 else set()
            for end, slot in zip(use.ends, ends, strict=True):
                for flip in possible[end.nodes]:
                    place = _place(flip, slot)
                    if place[1][-1][0] != "dim" or place[1][-1] in shared:
                        continue  # the block does not have the axis, or does not tell which end flips
                    heard[end.nodes].add(flip)
                    if place in own[block.key]:
                        flips[end.nodes].add(flip)
    changed = True
    while changed:
        changed = False
        for use, ends in zip(layout.identities, between, strict=True):
            for here, there in ((0, 1), (1, 0)):
                known = {_place(flip, ends[there]) for flip in flips[use.ends[there].nodes]}
                name = use.ends[here].nodes
                for flip in possible[name] - heard[name] - flips[name]:
                    if _place(flip, ends[here]) in known:
                        flips[name].add(flip)
                        changed = True
    return flips


def _possible_flips(layout: GraphLayout, nodes: NodeSet) -> _Flips:
    found: _Flips = set()
    for i, scaling in enumerate(layout.spec.scalings):
        family = layout.spec.axes[scaling.axis].family
        if scaling.kind != "positive" and set(family) <= set(nodes.axes):
            members = tuple(nodes.axes.index(member) for member in family)
            found |= {(i, (*members, k)) for k, axis in enumerate(nodes.axes) if axis == scaling.axis}
    return found


def _place(flip: tuple[int, tuple[int, ...]], slots: Mapping[int, Slot]) -> tuple[int, tuple[Slot, ...]]:
    return flip[0], tuple(slots[axis] for axis in flip[1])


def _messages(
    own: Character, use: Use, slots: Sequence[Mapping[int, Slot]], flips: Mapping[str, _Flips]
) -> Iterator[Message]:
    ends = [
        {_place(flip, slot) for flip in flips[end.nodes]} for end, slot in zip(use.ends, slots, strict=True)
    ]
    for side, here in enumerate(ends):
        there = ends[1 - side] if len(ends) == 2 else set()
        yield "product" if own ^ there == here else "edge" if own == here else "nothing"
