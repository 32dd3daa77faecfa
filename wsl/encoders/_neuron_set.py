"""What encoders of sets of neurons share: neurons described by their weights, weights by their neurons."""

from functools import partial

from torch import Tensor

from wsl.encoders._base import DeferredTensors
from wsl.encoders._graph_encoder import GraphEncoder
from wsl.nn import (
    GraphState,
    NeuronDescription,
    ProbeFeatures,
    WeightDescription,
    WeightEmbedding,
    WeightReadout,
)
from wsl.spec import WeightSpec


class NeuronSetEncoder(GraphEncoder):
    """Base of encoders that see a network as the set of its neurons, without the connections among them.

    Each neuron is described by its own weights (:class:`wsl.nn.NeuronDescription`); subclasses make
    ``layers`` and implement :meth:`mix`, which lets the neurons of all node sets exchange what they know;
    features of a weight come from its own value and the neurons at its ends
    (:class:`wsl.nn.WeightDescription`).

    Args:
        spec: the specification of the weights.
        channels: width of all states, and of the output.
        layers: number of layers.
        frequencies: Gaussian Fourier frequencies for every weight.
        probes: activations of the networks at learned inputs as further node features.
    """

    def __init__(
        self, spec: WeightSpec, channels: int, layers: int, frequencies: int, probes: ProbeFeatures | None
    ) -> None:
        super().__init__(spec, channels, layers, probes)
        self.embedding = WeightEmbedding(channels, frequencies, self.probe_channels)
        self.neurons = NeuronDescription(channels)
        self.weights = WeightDescription(channels)
        self.readout = WeightReadout(self.embedding.fourier.channels, channels)

    def update(self, state: GraphState) -> GraphState:
        state = self.neurons(self.layout, state)
        nodes, network = self.mix(state.nodes, state.network)
        state = state._replace(nodes=nodes, network=network)
        describe = self.weights(self.layout, state)
        edges = DeferredTensors({block.key: partial(describe, block) for block in self.layout.edges})
        return state._replace(edges=edges)

    def mix(self, nodes: Tensor, network: Tensor) -> tuple[Tensor, Tensor]:
        """New states of neurons ``(B, N, C)`` and of networks ``(B, C)``, equivariant to permutations."""
        raise NotImplementedError
