"""Neurons as a set: each described by its own weights, and weights by the neurons at their ends."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from wsl.graph import End, GraphBlock, GraphLayout
from wsl.nn._embedding import GraphState
from wsl.nn._message_passing import Sent, average_messages
from wsl.nn._positions import NEURON_FEATURES, neuron_features


class NeuronDescription(nn.Module):
    """Every neuron by its own weights, summarised so that the order of other neurons does not matter.

    With ``e_ij`` the embedded weight from neuron ``j`` to ``i`` (Fourier features, kernel positions), and
    ``c`` what the specification says of a neuron (kind, depth, index where it may not be permuted)::

        e_ij <- relu(e_ij + T c_i + S c_j)
        h_i   = norm(h_i + A mean_j e_ij + B mean_k e_ki)

    where ``h_i`` starts from ``c_i``, biases and norm parameters (:class:`wsl.nn.WeightEmbedding`). No weight
    of another neuron is read. Where a neuron has several incoming blocks, their means are averaged; likewise
    outgoing ones.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.ends = nn.Linear(NEURON_FEATURES, 2 * channels)
        self.weights_in = nn.Linear(2 * channels, channels)
        self.norm = nn.LayerNorm(channels)

    def forward(self, layout: GraphLayout, state: GraphState) -> GraphState:
        constants = self.ends(neuron_features(layout, state.nodes.dtype, state.nodes.device))
        target, source = constants.expand(len(state.nodes), -1, -1).chunk(2, dim=-1)
        edges = {
            block.key: meet_ends(block, state.edges[block.key], terms_of(layout, target, source))
            for block in layout.edges
        }
        sent: Sent = {}
        for block in layout.edges:
            for end, mean in pool_to_ends(block, edges[block.key]):
                sent.setdefault((end.nodes, end.target), []).append(mean)
        means = [average_messages(layout, sent, side, state.nodes) for side in (True, False)]
        nodes = self.norm(state.nodes + self.weights_in(torch.cat(means, dim=-1)))
        return state._replace(edges=edges, nodes=nodes)


class WeightDescription(nn.Module):
    """Every weight by its own state and those of the neurons at its ends and of the network.

    ``e_ij <- relu(e_ij + T h_i + S h_j + G g + b)``: no matrix product per weight. Weights that are used more
    than once get the mean over their uses.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.ends = nn.Linear(channels, 2 * channels)
        self.network = nn.Linear(channels, channels, bias=False)

    def forward(self, layout: GraphLayout, state: GraphState) -> Callable[[GraphBlock], Tensor]:
        """A function from blocks on edges to their new states ``(B, n_1, ..., n_k, C)``."""
        target, source = self.ends(state.nodes).chunk(2, dim=-1)
        target = target + self.network(state.network).unsqueeze(1)
        return lambda block: meet_ends(block, state.edges[block.key], terms_of(layout, target, source))


def terms_of(layout: GraphLayout, target: Tensor, source: Tensor) -> Callable[[End], Tensor]:
    """Of an end its rows of ``target`` or of ``source``, ``(B, N, C)`` each."""
    return lambda end: (target if end.target else source)[:, layout.slices[end.nodes]]


def meet_ends(block: GraphBlock, edges: Tensor, terms: Callable[[End], Tensor]) -> Tensor:
    """``relu(e_ij + t_i + s_j)``, with the mean of the terms over all uses of a block.

    Args:
        block: the block.
        edges: ``(B, n_1, ..., n_k, C)``.
        terms: of an end, what its nodes add, ``(B, n, C)``.

    Returns:
        New states, shaped as ``edges``.
    """
    new = edges.reshape(-1, *block.inner, edges.shape[-1])
    ends = [end for use in block.uses for end in use.ends]
    for i, end in enumerate(ends):
        term = end.pool(terms(end))
        term = term if len(block.uses) == 1 else term / len(block.uses)
        term = term.reshape(len(term), *_spread(block, end), term.shape[-1])
        new = new.add_(term) if i else new + term
    return (new.relu_() if ends else new.relu()).reshape(edges.shape)


def pool_to_ends(block: GraphBlock, edges: Tensor) -> list[tuple[End, Tensor]]:
    """For every end of every use of a block the mean over its edges at each node, ``(B, n, C)``."""
    folded = edges.reshape(-1, *block.inner, edges.shape[-1])
    pooled = []
    for use in block.uses:
        for end in use.ends:
            spread = _spread(block, end)
            others = [d + 1 for d, size in enumerate(block.inner) if spread[d] < size]
            count = math.prod(block.inner) // math.prod(spread)
            mean = folded.sum(others) / count if others else folded  # cheaper to differentiate than the mean
            pooled.append((end, end.spread(mean.reshape(len(mean), math.prod(spread), mean.shape[-1]))))
    return pooled


def _spread(block: GraphBlock, end: End) -> list[int]:
    """The sizes of a block's groups without the batch where they index an end, else 1."""
    first = int(block.batched)
    return [size if d + first in end.groups else 1 for d, size in enumerate(block.inner)]
