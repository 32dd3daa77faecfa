"""What the two encoders of neural graphs share: the order in which nodes and edges are updated."""

from functools import cache, partial

from torch import Tensor, nn

from wsl.encoders._base import DeferredTensors
from wsl.encoders._graph_encoder import GraphEncoder
from wsl.nn import (
    Connection,
    EdgeStep,
    GraphState,
    autocast_to,
    autocast_type,
    connections,
    fold_edges,
    run_steps,
)


class NeuralGraphEncoder(GraphEncoder):
    """Base of encoders whose layers update nodes, then edges, residual connections among them.

    The update of edges after one layer runs together with the next layer, which reads both; that after the
    last one runs when features of weights are read. Subclasses make, besides what all graph encoders have,
    what is listed below.
    """

    identity: nn.Parameter
    """The first state of edges without weights, ``(C_edge,)``."""
    edge_updates: nn.ModuleList
    """The update of edges after each layer."""
    edges_out: nn.Module
    """States of edges to the width of the output."""
    checkpoint: bool
    """Whether what happens on edges is computed again in the backward pass, to save memory."""

    def update(self, state: GraphState) -> GraphState:
        layout, nodes = self.layout, state.nodes + state.network.unsqueeze(1)
        edges = fold_edges(layout, state.edges, self.identity, len(nodes))
        for i, layer in enumerate(self.layers):
            update = self.edge_updates[i - 1] if i else None
            nodes, edges = layer(layout, nodes, edges, update, self.checkpoint)
        kind = autocast_type(nodes)
        steps = [step for step in self.edge_updates[-1:] if isinstance(step, EdgeStep)]
        terms = cache(lambda: [step.terms(nodes) for step in steps])

        def last(connection: Connection, like: Tensor) -> Tensor:
            states = edges[connection.key]
            with autocast_to(nodes, kind):
                if steps:
                    states, _ = run_steps(layout, connection, states, steps, terms(), self.checkpoint)
                out: Tensor = self.edges_out(states.reshape(like.shape))
            return out

        return state._replace(
            edges=DeferredTensors(
                {
                    connection.key: partial(last, connection, state.edges[connection.key])
                    for connection in connections(layout)
                    if isinstance(connection.key, str)
                }
            ),
            nodes=nodes,
            network=state.network + nodes.mean(1),
        )
