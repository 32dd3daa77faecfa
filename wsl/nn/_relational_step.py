"""Attention along the edges of one connection, with hand-derived gradients."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from wsl.nn._connections import Connection, Terminal

_FEW = 8  # nodes; plain operators take less time where fewer share what is computed once a node


def attend_along(
    connection: Connection, edges: Tensor, terms: Sequence[Tensor], tensors: Sequence[Tensor], heads: int
) -> list[Tensor]:
    """What :class:`RelationalMessages` computes, for some networks.

    Args:
        connection: the edges.
        edges: ``(B, *sizes, C)``.
        terms: for each terminal its queries, keys and values, ``(B, *shape, 3 * hidden)``.
        tensors: ``Q'`` and ``K'`` ``(hidden, C)``; what is added to queries and to keys in each direction
            ``(2, 2, hidden)``; of each direction ``V'`` ``(hidden, C)``, then ``V"`` ``(heads, C, D)``.
        heads: their number.

    Returns:
        For each terminal ``(B, *sizes[dims], hidden + heads)``. Differentiable any number of times.
    """
    matrix = len(connection.sizes) == 2 and [own.dims for own in connection.terminals] == [(0,), (1,)]
    single = matrix and len(connection.uses) == 1
    if single and min(connection.sizes) >= _FEW and not torch.compiler.is_compiling():
        messages: tuple[Tensor, ...] = _Attention.apply(connection, heads, edges, *terms, *tensors)
        return list(messages)
    return _attend_along(connection, edges, terms, tensors, heads)


def _attend_along(
    connection: Connection, edges: Tensor, terms: Sequence[Tensor], tensors: Sequence[Tensor], heads: int
) -> list[Tensor]:
    """In plain operators."""
    for_query, for_key, directions, *by_direction = tensors
    edge_query, edge_key = linear(edges, for_query), linear(edges, for_key)
    split = [heads, edge_query.shape[-1] // heads]
    messages: list[Tensor] = []
    start = 0
    for use in connection.uses:
        ends = [term.chunk(3, -1) for term in terms[start : start + len(use)]]
        start += len(use)
        for side, terminal in enumerate(use):
            gains, readout = by_direction[side], by_direction[2 + side]
            query = edge_query + (ends[side][0] + directions[side, 0])
            if len(use) > 1:
                key = edge_key + (ends[1 - side][1] + directions[side, 1])
                values = linear(edges, gains) * ends[1 - side][2]
            else:
                key, values = edge_key + directions[side, 1], torch.zeros_like(edge_key)
            scores = (query * key).unflatten(-1, split).sum(-1) * split[1] ** -0.5
            messages.append(attend(edges, scores, values.unflatten(-1, split), readout, terminal))
    return messages


def attend(edges: Tensor, scores: Tensor, values: Tensor, readout: Tensor, terminal: Terminal) -> Tensor:
    """Average what the nodes of a terminal read, by the softmax of scores over all but its dimensions.

    Args:
        edges: ``(B, *sizes, C)``, which are read through ``readout`` ``(H, C, D)``.
        scores: of each head, ``(B, *sizes, H)``.
        values: ``(B, *sizes, H, D)``.
        terminal: the nodes.

    Returns:
        The averages ``(B, *sizes[dims], H * D)`` beside the logarithms of the denominators ``(..., H)``.
    """
    letters = "ABCDEFGHIJKLMNOP"[: len(terminal.sizes)]
    own = "".join(letters[d] for d in terminal.dims)
    if terminal.others:
        total = scores.logsumexp(terminal.others, keepdim=True)
        attention = (scores - total).exp()
        total = total.squeeze(terminal.others)
        mean = (values * attention.unsqueeze(-1)).sum(terminal.others)
    else:
        total, attention, mean = scores, torch.ones_like(scores), values
    pooled = torch.einsum(f"z{letters}h,z{letters}c->z{own}hc", attention, edges)
    mean = mean + torch.einsum(f"z{own}hc,hcx->z{own}hx", pooled, readout)
    return torch.cat([mean.flatten(-2), total], dim=-1)


class _Attention(torch.autograd.Function):
    """:func:`_attend_along` for a matrix of edges with one use.

    Scores are multiplied out, so that their gradients pass the width of a head on edges only once for both
    directions, and what nodes add to them is applied as a map of edges to heads::

        (q_i + Q' e) (k_j + K' e) = q_i k_j + (K'^T q_i) e + (Q'^T k_j) e + (Q' e) (K' e)

    The direction against the edges is computed on the transposed matrix by the same code.
    """

    @staticmethod
    def forward(
        ctx: Any, connection: Connection, heads: int, edges: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        term0, term1, for_query, for_key, directions, gains0, gains1, readout0, readout1 = tensors
        sides, queries, keys = _read_ends((term0, term1), directions, heads)
        both = (edges, edges.transpose(1, 2).contiguous())
        flat = edges.reshape(-1, edges.shape[-1])
        edge_query, edge_key = flat @ for_query.T, flat @ for_key.T
        spare = edge_query * edge_key
        own = _by_head(spare, heads).sum(-1).view(*edges.shape[:-1], heads)
        maps = [_node_maps(*pair, for_query, for_key) for pair in zip(queries, keys, strict=True)]
        linears = [states @ own_maps.mT for states, own_maps in zip(both, maps, strict=True)]
        kept = [edge_query, edge_key]
        messages = []
        for side, (gains, readout) in enumerate(((gains0, readout0), (gains1, readout1))):
            scores = torch.einsum("zihd,zjhd->zijh", queries[side], keys[1 - side])
            scores += own if side == 0 else own.transpose(1, 2)
            scores += linears[side][..., :heads]
            scores += linears[1 - side].transpose(1, 2)[..., heads:]
            scores *= queries[0].shape[-1] ** -0.5
            message, *saved = _attend_rows(both[side], scores, sides[1 - side][2], gains, readout, spare)
            messages.append(message)
            kept += saved
        ctx.connection, ctx.heads = connection, heads
        ctx.save_for_backward(edges, *tensors, *kept)
        return messages[0], messages[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs, saved = ctx.saved_tensors[:10], ctx.saved_tensors[10:]
        if torch.is_grad_enabled():  # the gradients will be differentiated
            views = [x.view_as(x) for x in inputs]  # on their own, not as functions of one another
            outputs = _attend_along(ctx.connection, views[0], views[1:3], views[3:], ctx.heads)
            needed = [i for i, need in enumerate(ctx.needs_input_grad[2:]) if need]
            found = torch.autograd.grad(
                outputs, [views[i] for i in needed], grads, create_graph=True, allow_unused=True
            )
            results: list[Tensor | None] = [None] * len(inputs)
            for i, grad in zip(needed, found, strict=True):
                results[i] = grad
            return None, None, *results
        return None, None, *_attention_backward(ctx.heads, inputs, saved, grads)


def _attention_backward(
    heads: int, inputs: Sequence[Tensor], saved: Sequence[Tensor], grads: Sequence[Tensor]
) -> list[Tensor]:
    edges, term0, term1, for_query, for_key, directions, gains0, gains1, readout0, readout1 = inputs
    edge_query, edge_key, *kept = saved
    sides, queries, keys = _read_ends((term0, term1), directions, heads)
    both = (edges, edges.transpose(1, 2).contiguous())
    channels, width = edges.shape[-1], queries[0].shape[-1]
    flat = edges.reshape(-1, channels)
    spare = [flat.new_empty(len(flat), len(for_query)) for _ in range(2)]
    for_scores, to_edges, to_maps = [], [], []
    to_values: list[Tensor] = []
    to_gains: list[Tensor] = []
    to_readouts: list[Tensor] = []
    for side, (gains, readout) in enumerate(((gains0, readout0), (gains1, readout1))):
        values = sides[1 - side][2]
        found = _attend_rows_backward(
            both[side], values, gains, readout, kept[3 * side : 3 * side + 3], grads[side], spare
        )
        for_score, to_edge, to_pooled, *rest = found
        for_scores.append(for_score.mul_(width**-0.5))
        to_edges.append(to_edge)
        to_maps.append(to_pooled)
        for found_here, one in zip((to_values, to_gains, to_readouts), rest, strict=True):
            found_here.append(one)
    # The maps that nodes make of their queries and keys, and what attention averages, are one product.
    grad_query, grad_key = torch.zeros_like(for_query), torch.zeros_like(for_key)
    to_queries, to_keys = [], []
    for side in (0, 1):
        own_maps = _node_maps(queries[side], keys[side], for_query, for_key)
        other = for_scores[1 - side].transpose(1, 2)
        gathered = torch.cat([for_scores[side], other, kept[3 * side + 1]], dim=-1)
        to_edges[side] += gathered @ torch.cat([own_maps, to_maps[side]], dim=-2)
        from_query, from_key = (gathered[..., : 2 * heads].mT @ both[side]).split(heads, -2)
        to_query = torch.einsum("znhc,hdc->znhd", from_query, _split(for_key, heads))
        to_key = torch.einsum("znhc,hdc->znhd", from_key, _split(for_query, heads))
        to_query += torch.einsum("zijh,zjhd->zihd", for_scores[side], keys[1 - side])
        to_key += torch.einsum("zijh,zjhd->zihd", other, queries[1 - side])
        grad_key += torch.einsum("znhd,znhc->hdc", queries[side], from_query).flatten(0, 1)
        grad_query += torch.einsum("znhd,znhc->hdc", keys[side], from_key).flatten(0, 1)
        to_queries.append(to_query)
        to_keys.append(to_key)
    grad_edges = to_edges[0].add_(to_edges[1].transpose(1, 2))
    flat_grad = grad_edges.view(-1, channels)
    for_own = (for_scores[0] + for_scores[1].transpose(1, 2)).reshape(-1, heads, 1)
    for weight, total, times in ((for_query, grad_query, edge_key), (for_key, grad_key, edge_query)):
        grad = torch.mul(_by_head(times, heads), for_own, out=_by_head(spare[0], heads)).flatten(1)
        total.addmm_(grad.T, flat)
        flat_grad.addmm_(grad, weight)
    grad_directions = torch.stack(
        [
            torch.stack([to_queries[side].sum((0, 1)), to_keys[1 - side].sum((0, 1))]).flatten(1)
            for side in (0, 1)
        ]
    )
    grad_terms = [
        torch.cat([x.flatten(2) for x in parts], dim=-1).view(term.shape)
        for *parts, term in zip(to_queries, to_keys, to_values[::-1], (term0, term1), strict=True)
    ]
    return [grad_edges, *grad_terms, grad_query, grad_key, grad_directions, *to_gains, *to_readouts]


def _read_ends(
    terms: Sequence[Tensor], directions: Tensor, heads: int
) -> tuple[list[list[Tensor]], list[Tensor], list[Tensor]]:
    """Queries, keys and values of both ends ``(B, n, H, D)``; queries and keys as scores read them."""
    sides = [[_by_head(part, heads) for part in term.flatten(1, -2).chunk(3, dim=-1)] for term in terms]
    own = _split(directions.flatten(0, 1), heads, -1)
    queries = [sides[0][0] + own[0], sides[1][0] + own[2]]
    keys = [sides[0][1] + own[3], sides[1][1] + own[1]]
    return sides, queries, keys


def _node_maps(queries: Tensor, keys: Tensor, for_query: Tensor, for_key: Tensor) -> Tensor:
    """Maps of edges to what queries, then keys, of their end add to scores, ``(B, n, 2 H, C)``."""
    heads = queries.shape[-2]
    pairs = ((queries, for_key), (keys, for_query))
    return torch.cat(
        [torch.einsum("znhd,hdc->znhc", ends, _split(weight, heads)) for ends, weight in pairs], dim=-2
    )


def _attend_rows(
    edges: Tensor, scores: Tensor, values: Tensor, gains: Tensor, readout: Tensor, spare: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`attend` for the rows of a matrix ``(B, n, m, C)``; changes scores.

    Returns the message; then ``V' e`` ``(B, n, m, H, D)``, attention ``(B, n, m, H)``, and the averages of
    edges by it, ``(B, n, H, C)``.
    """
    total = scores.logsumexp(2)
    attention = scores.sub_(total.unsqueeze(2)).exp_()
    mapped = (edges.reshape(-1, edges.shape[-1]) @ gains.T).view(*attention.shape, values.shape[-1])
    product = torch.mul(mapped, values.unsqueeze(1), out=spare.view(mapped.shape))
    mean = product.mul_(attention.unsqueeze(-1)).sum(2)
    pooled = attention.mT @ edges
    mean += torch.einsum("znhc,hcd->znhd", pooled, readout)
    return torch.cat([mean.flatten(2), total], dim=-1), mapped, attention, pooled


def _attend_rows_backward(
    edges: Tensor,
    values: Tensor,
    gains: Tensor,
    readout: Tensor,
    kept: Sequence[Tensor],
    grad: Tensor,
    spare: Sequence[Tensor],
) -> tuple[Tensor, ...]:
    """Gradients of scores, of edges by way of ``V'``, of pooled edges, values, gains and readout."""
    mapped, attention, pooled = kept
    heads, channels, _ = readout.shape
    for_mean, for_total = grad.split([grad.shape[-1] - heads, heads], dim=-1)
    for_mean = _by_head(for_mean, heads)
    to_pooled = torch.einsum("znhd,hcd->znhc", for_mean, readout)
    to_readout = torch.einsum("znhc,znhd->hcd", pooled, for_mean)
    received, sent = for_mean.unsqueeze(2), values.unsqueeze(1)
    through = torch.mul(mapped, received, out=spare[0].view(mapped.shape))
    to_attention = edges @ to_pooled.mT
    product = torch.mul(through, sent, out=spare[1].view(through.shape))
    to_attention += product.sum(-1)
    to_value = through.mul_(attention.unsqueeze(-1)).sum(1)
    to_mapped = torch.mul(received, sent, out=product).mul_(attention.unsqueeze(-1))
    to_mapped = to_mapped.view(-1, gains.shape[0])
    to_gains = to_mapped.T @ edges.reshape(-1, channels)
    to_edges = (to_mapped @ gains).view(edges.shape)
    mean = (to_attention * attention).sum(2)
    to_scores = to_attention.sub_((mean - for_total).unsqueeze(2)).mul_(attention)
    return to_scores, to_edges, to_pooled, to_value, to_gains, to_readout


def _by_head(states: Tensor, heads: int) -> Tensor:
    return states.unflatten(-1, (heads, states.shape[-1] // heads))


def _split(tensor: Tensor, heads: int, dim: int = 0) -> Tensor:
    return tensor.unflatten(dim, (heads, tensor.shape[dim] // heads))
