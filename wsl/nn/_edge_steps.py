"""What a layer does on edges, in steps that run together on a few networks at a time."""

import itertools
from collections.abc import Sequence

from torch import Tensor, nn

from wsl.graph import GraphLayout
from wsl.nn._chunked import chunked
from wsl.nn._connections import Connection


class EdgeStep(nn.Module):
    """Part of a layer that works on edges, from their states and from what the nodes at their ends add.

    A step with ``updates`` returns new states of edges, which the next step reads; others return messages.
    """

    updates = False

    def terms(self, nodes: Tensor) -> Tensor:
        """What nodes add to their edges: ``(B, N, C)`` to ``(B, N, T)``."""
        raise NotImplementedError

    def tensors(self) -> list[Tensor]:
        """The parameters that :meth:`compute` reads."""
        raise NotImplementedError

    def compute(
        self, connection: Connection, edges: Tensor, terms: Sequence[Tensor], tensors: Sequence[Tensor]
    ) -> list[Tensor]:
        """The step itself, for some networks.

        Args:
            connection: the edges.
            edges: ``(B, *sizes, C)``.
            terms: for each of ``connection.terminals``, ``(B, *terminal.shape, T)``.
            tensors: as :meth:`tensors` returns.

        Returns:
            New states, shaped as ``edges``; or messages, the same number for each terminal.
        """
        raise NotImplementedError


def run_steps(
    layout: GraphLayout,
    connection: Connection,
    edges: Tensor,
    steps: Sequence[EdgeStep],
    terms: Sequence[Tensor],
    checkpoint: bool = False,
) -> tuple[Tensor, list[Tensor]]:
    """Run steps one after another on the edges of a connection.

    Args:
        layout: the computational graph.
        connection: the edges.
        edges: ``(B * batch, *sizes, C)``.
        steps: an update, or a step that sends messages, or both in this order.
        terms: of each step, for all nodes, ``(B, N, T)``.
        checkpoint: as :func:`chunked` says.

    Returns:
        The states after the update, and the messages.
    """
    updates, width = steps[0].updates, len(connection.terminals)
    if not (updates or width):
        return edges, []
    ends = [
        terminal.gather(own[:, layout.slices[terminal.end.nodes]])
        for own in terms
        for terminal in connection.terminals
    ]
    shared = [step.tensors() for step in steps]

    def function(batched: Sequence[Tensor], shared_now: Sequence[Tensor]) -> tuple[Tensor, ...]:
        states, outputs, start = batched[0], [], 0
        for i, (step, own) in enumerate(zip(steps, shared, strict=True)):
            at_ends = batched[1 + i * width : 1 + (i + 1) * width]
            found = step.compute(connection, states, at_ends, shared_now[start : start + len(own)])
            states = found[0] if step.updates else states
            outputs += found
            start += len(own)
        return tuple(outputs)

    outputs = list(chunked(function, [edges, *ends], list(itertools.chain(*shared)), checkpoint))
    return (outputs[0], outputs[1:]) if updates else (edges, outputs)


def add_ends(connection: Connection, hidden: Tensor, terms: Sequence[Tensor], bias: Tensor) -> Tensor:
    """Add what the target (first half of its term) and the source (second half) of each edge add, in place.

    Args:
        connection: the edges.
        hidden: ``(B, *sizes, C)``, changed.
        terms: for each terminal, ``(B, *terminal.shape, 2 C)``; over uses the mean is taken.
        bias: ``(C,)``, which goes along with targets: there are fewer of them than edges.
    """
    uses = len(connection.uses)
    for terminal, term in zip(connection.terminals, terms, strict=True):
        target, source = term.chunk(2, -1)
        hidden.add_(target + bias if terminal.end.target else source, alpha=1 / uses)
    return hidden
