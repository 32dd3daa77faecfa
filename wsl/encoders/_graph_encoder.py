"""What encoders on the computational graph share: weights to graph states, and graph states to features."""

from collections.abc import Mapping

from torch import Tensor, nn

from wsl.encoders._any_spec import AnySpecEncoder
from wsl.encoders._base import WeightFeatures
from wsl.encoders._features import graph_features
from wsl.nn import GraphState, WeightEmbedding, WeightReadout


class GraphEncoder(AnySpecEncoder):
    """Base of encoders on the computational graph with states of edges and of nodes.

    Subclasses make ``embedding``, ``layers`` and ``readout``, and implement :meth:`update`.

    Args:
        spec: the specification of the weights.
        channels: width of the states of nodes and networks, and of the output.
        layers: number of layers, checked here.
        probes: activations of the networks at learned inputs as further node features.

    Raises:
        SpecError: the probe features are of an architecture that is not ``spec``'s.
        ValueError: no channels, or a negative number of layers.
    """

    embedding: WeightEmbedding
    layers: nn.ModuleList
    readout: WeightReadout

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        blocks, state = self.embed(weights)
        return self.features(blocks, self.update(state) if self.layout.sizes else state)

    def update(self, state: GraphState) -> GraphState:
        """All layers, from the embedded state to that of the output; not called where there are no nodes."""
        raise NotImplementedError

    def embed(self, weights: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], GraphState]:
        """Weights ``(B, *shape)`` to standardised graph blocks, and the state before all layers."""
        layout = self.layout
        values = self.read(weights)
        blocks = {block.key: block.to_graph(values[block.key]) for block in layout.blocks}
        nodes = {} if self.probes is None else self.probes(weights)
        return blocks, self.embedding(layout, blocks, nodes)

    def features(self, blocks: Mapping[str, Tensor], state: GraphState) -> WeightFeatures:
        """The state after all layers to features; those of weights are computed when they are read."""
        return graph_features(self.layout, blocks, state, self.readout, self.embedding.fourier)
