"""A graph metanetwork: message passing on the computational graph of a network."""

from collections.abc import Mapping

from torch import Tensor, nn

from wsl.encoders._graph_encoder import GraphEncoder
from wsl.nn import GraphState, MessagePassing, PositionGains, ProbeFeatures, WeightEmbedding, WeightReadout
from wsl.spec import WeightSpec


class GraphMetanetwork(GraphEncoder):
    """Encodes the weights of any architecture by message passing among its neurons and weights.

    Equivariant to every permutation of hidden neurons. The graph is that of the specification's topology:
    neurons are nodes (with their biases, norm parameters and running statistics), once after every
    activation; weights are edges (kernel positions are channels of an edge), shared ones wherever they are
    used; residual connections are edges without weights; and one state stands for the whole network. No
    learnable parameter depends on the specification: :meth:`for_spec` reads other architectures with the same
    ones.

    Args:
        spec: the specification of the weights.
        channels: width of all states, and of the output.
        layers: rounds of message passing.
        frequencies: Gaussian Fourier frequencies for every weight.
        probes: activations of the networks at learned inputs as further node features.

    Raises:
        SpecError: the probe features are of an architecture that is not ``spec``'s.
        ValueError: no channels, or a negative number of layers or frequencies.

    Source: Lim et al. 2023 (arXiv:2312.04501), Kofinas et al. 2024 (arXiv:2403.12143); Fourier features of
    Zhou et al. 2023 (arXiv:2302.14040). Deviates as :class:`wsl.nn.MessagePassing` says.
    """

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 64,
        layers: int = 4,
        *,
        frequencies: int = 16,
        probes: ProbeFeatures | None = None,
    ) -> None:
        super().__init__(spec, channels, layers, probes)
        self.embedding = WeightEmbedding(channels, frequencies, self.probe_channels)
        self.gains = PositionGains(channels)
        self.layers = nn.ModuleList(MessagePassing(channels) for _ in range(layers))
        self.readout = WeightReadout(self.embedding.fourier.channels, channels)

    def embed(self, weights: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], GraphState]:
        blocks, state = super().embed(weights)
        gains = {block.key: self.gains(block, state.network) for block in self.layout.edges}
        return blocks, state._replace(gains=gains)

    def update(self, state: GraphState) -> GraphState:
        for layer in self.layers:
            state = layer(self.layout, state)
        return state

    def sparse(self) -> nn.Module:
        """The sparse twin, which shares this encoder's parameters: for comparison, and slower."""
        from wsl.encoders._sparse import SparseGraphMetanetwork  # imports torch_geometric

        return SparseGraphMetanetwork(self)
