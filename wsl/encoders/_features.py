"""From states of a graph, or of a whole network, to features of every weight and every neuron."""

from collections.abc import Mapping
from functools import partial

from torch import Tensor

from wsl.encoders._base import DeferredTensors, WeightFeatures
from wsl.graph import GraphBlock, GraphLayout
from wsl.nn import GaussianFourierFeatures, GraphState, WeightReadout


def graph_features(
    layout: GraphLayout,
    blocks: Mapping[str, Tensor],
    state: GraphState,
    readout: WeightReadout,
    fourier: GaussianFourierFeatures,
) -> WeightFeatures:
    """Features of nodes are their states; those of weights are computed when they are read.

    Args:
        layout: the computational graph of the architecture.
        blocks: by block key the standardised weights, as :meth:`wsl.graph.GraphBlock.to_graph` orders them.
        state: states of edges, nodes and networks; edges may be deferred.
        readout: state and Fourier features to features of weights.
        fourier: of the weights.
    """
    nodes = {name: state.nodes[:, rows] for name, rows in layout.slices.items()}

    def feature(block: GraphBlock) -> Tensor:
        if block.is_edge:
            owner = state.edges[block.key]
        elif block.uses:
            owner = block.from_nodes(nodes.__getitem__)
        else:
            owner = state.network
        return block.from_graph(readout(block, owner, lambda: fourier(blocks[block.key])))

    tensors = DeferredTensors({block.key: partial(feature, block) for block in layout.blocks})
    return WeightFeatures(tensors=tensors, nodes=nodes)


def broadcast_features(layout: GraphLayout, vectors: Tensor) -> WeightFeatures:
    """One vector ``(B, C)`` a network as the features of all of its weights and neurons."""

    def shared(*shape: int) -> Tensor:
        apart = vectors.reshape(len(vectors), *(1 for _ in shape), vectors.shape[-1])
        return apart.expand(-1, *shape, -1)

    return WeightFeatures(
        tensors=DeferredTensors({ref.key: partial(shared, *ref.block.view) for ref in layout.spec.blocks}),
        nodes={name: shared(size) for name, size in layout.sizes.items()},
    )
