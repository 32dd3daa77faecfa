"""Messages that multiply the states of nodes with the weights between them, as a forward pass does."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from wsl.graph import GraphBlock


def use_messages(
    block: GraphBlock, number: int, i: int, weights: Tensor, gains: Tensor | None, states: Tensor
) -> Tensor:
    """What one end of a use of a block receives from the states of the nodes at its other end.

    Args:
        block: the block.
        number: of the use, which has a source.
        i: 0 for messages to the target, 1 to the source.
        weights: on the edges, ``(B, *sizes, K)``.
        gains: of kernel positions, ``(K, C)``, or ``None`` for ones.
        states: of all nodes at the other end, ``(B, n, C)``.

    Returns:
        ``(B, n', C)``, divided by the root of :func:`fan_in`.
    """
    receiver, sender = block.uses[number].ends[i], block.uses[number].ends[1 - i]
    common = receiver.parts[2]  # nodes that share a weight are further channels
    gains = gains if gains is None or common == 1 else gains.repeat(1, common)
    sent = sender.fold(states)
    if block.sides is None:
        inner = weights.reshape(-1, *block.inner, weights.shape[-1])
        receiving, sending = _dims(block, number, i)
        return receiver.unfold(tensor_messages(inner, sent, gains, receiving, sending))
    sizes = (*block.inner, 1, 1)[:2]
    inner = weights if block.sizes == sizes else weights.reshape(-1, *sizes, weights.shape[-1])
    return receiver.unfold(matrix_messages(inner, sent, gains, block.sides[number][i]))


def fan_in(block: GraphBlock, number: int, i: int) -> int:
    """How many products :func:`use_messages` adds up."""
    if block.sides is not None:
        return block.position_count * (*block.inner, 1, 1)[:2][1 - block.sides[number][i]]
    receiving, sending = _dims(block, number, i)
    return block.position_count * math.prod(block.inner[d] for d in sending if d not in receiving)


def _dims(block: GraphBlock, number: int, i: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dimensions of ``block.inner`` that index the receiving and the sending nodes."""
    first, ends = int(block.batched), block.uses[number].ends
    return tuple(g - first for g in ends[i].groups), tuple(g - first for g in ends[1 - i].groups)


def matrix_messages(weights: Tensor, states: Tensor, gains: Tensor | None, side: int) -> Tensor:
    """``sum_j w_ij s[j] / sqrt(n K)`` to the nodes ``i`` on one side of a batch of matrices.

    Weights at several kernel positions are summed with a gain for each channel.

    Args:
        weights: ``(B, n_0, n_1, K)``.
        states: of the nodes on the other side, ``(B, n, C)``.
        gains: ``(K, C)``, or ``None`` if ``K`` is 1 and the gain 1.
        side: 0 or 1, where the messages go.

    Returns:
        ``(B, n_side, C)``.
    """
    matrix = (weights if side == 0 else weights.transpose(1, 2)).flatten(2)
    if gains is not None:
        states = (states.unsqueeze(2) * gains).flatten(1, 2)
    return torch.bmm(matrix, states) / matrix.shape[2] ** 0.5


def tensor_messages(
    weights: Tensor,
    states: Tensor,
    gains: Tensor | None,
    receiving: Sequence[int],
    sending: Sequence[int],
) -> Tensor:
    """:func:`matrix_messages` for any number of dimensions, at several of which a node may lie.

    Weights are averaged over dimensions at neither end; a dimension at both ends connects equal indices.

    Args:
        weights: ``(B, n_1, ..., n_k, K)``.
        states: of the nodes that send, ``(B, n, C)`` with ``n`` the product of their dimensions.
        gains: ``(K, C)``, or ``None`` if ``K`` is 1 and the gain 1.
        receiving, sending: the dimensions, from 0, of the nodes that receive and that send.

    Returns:
        ``(B, n', C)`` with ``n'`` the product of the receiving dimensions.
    """
    sizes, letters = weights.shape[1:-1], "abcdefghijklmnop"[: weights.dim() - 2]
    to, source = ("".join(letters[i] for i in dims) for dims in (receiving, sending))
    apart = states.reshape(len(states), *(sizes[i] for i in sending), states.shape[-1])
    if gains is None:
        gains = weights.new_ones(1, states.shape[-1])
    summed = [sizes[i] for i in sending if i not in receiving]
    averaged = [sizes[i] for i in range(len(sizes)) if i not in receiving and i not in sending]
    scale = math.prod(averaged) * math.sqrt(math.prod(summed) * weights.shape[-1])
    message = torch.einsum(f"z{letters}k,kx,z{source}x->z{to}x", weights, gains.to(weights), apart) / scale
    return message.reshape(len(message), -1, states.shape[-1])
