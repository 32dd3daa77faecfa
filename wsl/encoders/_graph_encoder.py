"""What encoders on the computational graph share: weights to graph states, and graph states to features."""

from collections.abc import Mapping
from typing import Self

from torch import Tensor, nn

from wsl.encoders._base import Encoder, WeightFeatures
from wsl.encoders._features import graph_features
from wsl.graph import graph_layout
from wsl.nn import GraphState, ProbeFeatures, WeightEmbedding, WeightReadout
from wsl.spec import SpecError, WeightSpec


class GraphEncoder(Encoder):
    """Base of encoders on the computational graph, none of whose parameters depends on the specification.

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

    def __init__(self, spec: WeightSpec, channels: int, layers: int, probes: ProbeFeatures | None) -> None:
        super().__init__(spec, channels)
        if layers < 0:
            raise ValueError(f"{type(self).__name__} needs at least 0 layers, got layers={layers}.")
        _check_probes(probes, spec)
        self.layout = graph_layout(spec)
        self.probes = probes

    @property
    def probe_channels(self) -> int:
        """Width of the probe features; 0 if there are none."""
        return 0 if self.probes is None else self.probes.channels

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

    def for_spec(self, spec: WeightSpec, probes: ProbeFeatures | None = None) -> Self:
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
