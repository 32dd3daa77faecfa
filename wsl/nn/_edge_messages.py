"""What one block of weights does in a round of message passing: new edge states, and messages to its ends."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from wsl.graph import End, GraphBlock
from wsl.nn._edge_update import update_edges, update_hyperedges
from wsl.nn._linear_messages import use_messages

States = Callable[[End], Tensor]


class EdgeWeights(NamedTuple):
    """The constant part of a block: its weights ``(B, *sizes, K)``, and gains ``(K, C)`` or ``None``."""

    values: Tensor
    gains: Tensor | None


class Message(NamedTuple):
    """What one end of one use of a block receives, ``(B, n, C)``; ``linear`` is ``None`` without a source."""

    end: End
    mean: Tensor
    linear: Tensor | None


def exchange(
    block: GraphBlock, edges: Tensor, weights: EdgeWeights, matrix: Tensor, terms: States, values: States
) -> tuple[Tensor, list[Message]]:
    """Update the states of a block's edges from their ends, and send messages to them.

    A block that is used more than once is updated from the mean over its uses, and sends messages along each.

    Args:
        block: the block.
        edges: ``(B, *sizes, C)``.
        weights: the weights on these edges.
        matrix: ``(C, C)``, of the update.
        terms: of an end, what its nodes add to the update, ``(B, n, C)``.
        values: of an end, what its nodes send along weights, ``(B, n, C)``.

    Returns:
        New states, and a message for every end.
    """
    if block.sides is None:
        return _exchange_tensor(block, edges, weights, matrix, terms, values)
    sizes = (*block.inner, 1, 1)[:2]
    plain = block.sizes == sizes
    folded = edges if plain else edges.reshape(-1, *sizes, edges.shape[-1])
    on_sides: tuple[list[Tensor], list[Tensor]] = ([], [])
    for use, sides in zip(block.uses, block.sides, strict=True):
        for end, side in zip(use.ends, sides, strict=True):
            on_sides[side].append(end.pool(terms(end)))
    summed = [
        _share(side, len(block.uses)) if side else folded.new_zeros(len(folded), size, folded.shape[-1])
        for side, size in zip(on_sides, sizes, strict=True)
    ]
    new, means = update_edges(folded, matrix, summed)
    messages = []
    for number, (use, sides) in enumerate(zip(block.uses, block.sides, strict=True)):
        for i, (end, side) in enumerate(zip(use.ends, sides, strict=True)):
            messages.append(Message(end, end.spread(means[side]), _linear(block, number, i, weights, values)))
    return new if plain else new.reshape(edges.shape), messages


def _exchange_tensor(
    block: GraphBlock, edges: Tensor, weights: EdgeWeights, matrix: Tensor, terms: States, values: States
) -> tuple[Tensor, list[Message]]:
    """:func:`exchange` for blocks that are no batch of matrices."""
    sizes, first = block.inner, int(block.batched)
    folded = edges.reshape(-1, *sizes, edges.shape[-1])
    ends = [end for use in block.uses for end in use.ends]
    dims = [tuple(g - first for g in end.groups) for end in ends]
    added = [end.pool(terms(end)) / len(block.uses) for end in ends]
    new, means = update_hyperedges(folded, matrix, added, dims)
    messages = []
    received = iter(means)
    for number, use in enumerate(block.uses):
        for i, end in enumerate(use.ends):
            mean = end.spread(next(received))
            messages.append(Message(end, mean, _linear(block, number, i, weights, values)))
    return new.reshape(edges.shape), messages


def _linear(block: GraphBlock, number: int, i: int, weights: EdgeWeights, values: States) -> Tensor | None:
    """What an end of a use receives along the weights; ``None`` if the use has no source."""
    use = block.uses[number]
    if use.source is None:
        return None
    return use_messages(block, number, i, weights.values, weights.gains, values(use.ends[1 - i]))


def _share(terms: list[Tensor], uses: int) -> Tensor:
    total = terms[0] if len(terms) == 1 else torch.stack(terms).sum(0)
    return total if uses == 1 else total / uses
