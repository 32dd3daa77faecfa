"""The edges of a computational graph, with and without weights, as layers that treat both alike see them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from torch import Tensor

from wsl.graph import End, GraphBlock, GraphLayout


@dataclass(frozen=True)
class Terminal:
    """The nodes at one end of one use of a connection.

    Args:
        end: the end.
        sizes: of the dimensions of the connection.
        dims: which of them index these nodes, ascending.
        edges: number of edges to each node along one entry of the connection.
        weighted: whether nodes that agree on the connection's dimensions share its entries.
    """

    end: End
    sizes: tuple[int, ...]
    dims: tuple[int, ...]
    edges: int
    weighted: bool

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the connection's dimensions that index these nodes, and ones."""
        return tuple(size if d in self.dims else 1 for d, size in enumerate(self.sizes))

    @cached_property
    def others(self) -> tuple[int, ...]:
        """The other dimensions, counted with the batch of networks."""
        return tuple(d + 1 for d in range(len(self.sizes)) if d not in self.dims)

    @cached_property
    def degree(self) -> int:
        """Number of edges at each node."""
        return self.edges * math.prod(self.sizes[d - 1] for d in self.others)

    def gather(self, states: Tensor) -> Tensor:
        """States ``(B, n, C)`` of the nodes to ``(B * batch, *shape, C)``."""
        rows = self.end.pool(states) if self.weighted else self.end.fold(states)
        return rows.reshape(-1, *self.shape, states.shape[-1])

    def scatter(self, messages: Tensor) -> Tensor:
        """Messages ``(B * batch, *sizes[dims], C)`` to ``(B, n, C)``."""
        channels = messages.shape[-1]
        if self.weighted:
            return self.end.spread(messages.reshape(-1, math.prod(self.shape), channels))
        return self.end.unfold(messages.reshape(-1, 1, math.prod(self.shape) * channels))


@dataclass(frozen=True)
class Connection:
    """All edges of a block, or the identity edges between two node sets, of which each has a state.

    States are ``(B * batch, *sizes, C)``: a dimension for each group of a block (see
    :class:`wsl.graph.GraphBlock`), the batch folded into the networks; of identity edges, one for the indices
    on which both ends agree.

    Args:
        key: of the block; the number of the identity edges.
        batch: number of indices of the batch.
        sizes: of all other dimensions.
        uses: for every use the target, and the source if there is one.
    """

    key: str | int
    batch: int
    sizes: tuple[int, ...]
    uses: tuple[tuple[Terminal, ...], ...]

    @cached_property
    def terminals(self) -> tuple[Terminal, ...]:
        """Those of all uses."""
        return tuple(terminal for use in self.uses for terminal in use)


@lru_cache(maxsize=256)
def connections(layout: GraphLayout) -> tuple[Connection, ...]:
    """Those of all blocks on edges, then those of identity edges; cached."""
    identities = []
    for i, use in enumerate(layout.identities):
        sizes = (use.target.parts[2],)
        terminals = _terminals(use.ends, sizes, [(0,), (0,)], weighted=False)
        identities.append(Connection(i, 1, sizes, (terminals,)))
    return (*map(_of_block, layout.edges), *identities)


def fold_edges(
    layout: GraphLayout, edges: Mapping[str, Tensor], identity: Tensor, count: int
) -> dict[str | int, Tensor]:
    """States by connection of ``count`` networks.

    Args:
        layout: the computational graph.
        edges: by block key, ``(B, *sizes, C)``.
        identity: the state of all identity edges, ``(C,)``.
        count: number of networks, ``B``.
    """
    folded: dict[str | int, Tensor] = {}
    for connection in connections(layout):
        if isinstance(connection.key, str):
            states = edges[connection.key]
            folded[connection.key] = states.reshape(-1, *connection.sizes, states.shape[-1])
        else:
            folded[connection.key] = identity.expand(count, *connection.sizes, -1)
    return folded


def _of_block(block: GraphBlock) -> Connection:
    first = int(block.batched)
    uses = []
    for use in block.uses:
        dims = [tuple(group - first for group in end.groups) for end in use.ends]
        uses.append(_terminals(use.ends, block.inner, dims, weighted=True))
    return Connection(block.key, block.batch, block.inner, tuple(uses))


def _terminals(
    ends: tuple[End, ...], sizes: tuple[int, ...], dims: Iterable[tuple[int, ...]], weighted: bool
) -> tuple[Terminal, ...]:
    rest = [end.parts[3] for end in ends[::-1]] if len(ends) > 1 else [1]
    return tuple(
        Terminal(end, sizes, own, edges, weighted) for end, own, edges in zip(ends, dims, rest, strict=True)
    )
