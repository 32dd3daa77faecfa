"""A graph metanetwork: message passing on the computational graph of a network."""

from collections.abc import Mapping

from torch import Tensor, nn

from wsl.encoders._base import Encoder, WeightFeatures
from wsl.encoders._features import graph_features
from wsl.graph import graph_layout
from wsl.nn import GraphState, MessagePassing, ProbeFeatures, WeightEmbedding, WeightReadout
from wsl.spec import SpecError, WeightSpec


class GraphMetanetwork(Encoder):
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
        super().__init__(spec, channels)
        if layers < 0:
            raise ValueError(f"a graph metanetwork needs at least 0 layers, got layers={layers}.")
        _check_probes(probes, spec)
        self.layout = graph_layout(spec)
        self.probes = probes
        self.embedding = WeightEmbedding(channels, frequencies, 0 if probes is None else probes.channels)
        self.layers = nn.ModuleList(MessagePassing(channels) for _ in range(layers))
        self.readout = WeightReadout(self.embedding.fourier.channels, channels)

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        blocks, state = self.embed(weights)
        for layer in self.layers:
            state = layer(self.layout, state)
        return self.features(blocks, state)

    def embed(self, weights: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], GraphState]:
        """Weights ``(B, *shape)`` to standardised graph blocks, and the state before message passing."""
        layout = self.layout
        values = self.read(weights)
        blocks = {block.key: block.to_graph(values[block.key]) for block in layout.blocks}
        nodes = {} if self.probes is None else self.probes(weights)
        return blocks, self.embedding(layout, blocks, nodes)

    def features(self, blocks: Mapping[str, Tensor], state: GraphState) -> WeightFeatures:
        """The state after message passing to features; those of weights are computed when they are read."""
        return graph_features(self.layout, blocks, state, self.readout, self.embedding.fourier)

    def sparse(self) -> nn.Module:
        """The sparse twin, which shares this encoder's parameters: for comparison, and slower."""
        from wsl.encoders._sparse import SparseGraphMetanetwork  # imports torch_geometric

        return SparseGraphMetanetwork(self)

    def for_spec(self, spec: WeightSpec, probes: ProbeFeatures | None = None) -> "GraphMetanetwork":
        """This encoder for another architecture: the same parameters (not copies), fresh statistics.

        Args:
            spec: the specification of the other architecture.
            probes: probe features of the other architecture, with as many probes as this encoder's.

        Raises:
            SpecError: the probe features are of an architecture that is not ``spec``'s.
        """
        _check_probes(probes, spec)
        twin = self._twin(spec)
        twin.layout, twin.probes = graph_layout(spec), probes
        return twin


def _check_probes(probes: ProbeFeatures | None, spec: WeightSpec) -> None:
    if probes is not None and probes.spec != spec:
        raise SpecError(
            "the probe features are of another architecture than the encoder.\n"
            f"  probes: {_shapes(probes.spec)}\n  encoder: {_shapes(spec)}\n"
            "  Make them for this one: ProbeFeatures(module, spec, example_inputs)."
        )


def _shapes(spec: WeightSpec) -> dict[str, tuple[int, ...]]:
    return {name: tensor.shape for name, tensor in spec.tensors.items()}
