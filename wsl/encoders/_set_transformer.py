"""The Set Transformer on neurons: attention among the neurons of all layers."""

from torch import Tensor, nn

from wsl.encoders._neuron_set import NeuronSetEncoder
from wsl.nn import AttentionPooling, InducedAttention, ProbeFeatures
from wsl.spec import WeightSpec


class SetTransformer(NeuronSetEncoder):
    """A network as one set of neurons that attend to one another by way of inducing points.

    Every neuron is described by its own weights, and by an embedding of the type of its node set: kind,
    activation, depth, size (:class:`wsl.nn.NeuronDescription`). Then induced set attention blocks over the
    neurons of all node sets together, in time linear in their number, and attention pooling: the pooled
    state ``g`` of the network is added to each neuron, as ``norm(h_i + G g)``.

    Invariant to more than the symmetries of the network: it is blind to which neuron is connected with which.
    Identity edges are not read.

    No learnable parameter depends on the specification: :meth:`for_spec` reads other architectures with the
    same ones. Accepts every specification.

    Args:
        spec: the specification of the weights.
        channels: width of all states, and of the output.
        layers: number of induced set attention blocks.
        heads: of attention; divides ``channels``.
        points: inducing points of every block.
        frequencies: Gaussian Fourier frequencies for every weight.
        probes: activations of the networks at learned inputs as further node features.

    Raises:
        SpecError: the probe features are of an architecture that is not ``spec``'s.
        ValueError: no channels, heads that do not divide them, no inducing points, or a negative number of
            layers or frequencies.

    Source: Lee et al. 2019 (arXiv:1810.00825): ISAB, and PMA with one seed. Deviates: as
    :class:`wsl.nn.MultiheadAttentionBlock` says; the pooled state goes back to the elements, so that there
    are features of every neuron.
    """

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 64,
        layers: int = 2,
        *,
        heads: int = 4,
        points: int = 16,
        frequencies: int = 16,
        probes: ProbeFeatures | None = None,
    ) -> None:
        super().__init__(spec, channels, layers, frequencies, probes)
        self.layers = nn.ModuleList(InducedAttention(channels, heads, points) for _ in range(layers))
        self.pool = AttentionPooling(channels, heads)
        self.network_norm = nn.LayerNorm(channels)
        self.network_to_nodes = nn.Linear(channels, channels, bias=False)
        self.node_norm = nn.LayerNorm(channels)

    def mix(self, nodes: Tensor, network: Tensor) -> tuple[Tensor, Tensor]:
        for layer in self.layers:
            nodes = layer(nodes)
        network = self.network_norm(network + self.pool(nodes))
        return self.node_norm(nodes + self.network_to_nodes(network).unsqueeze(1)), network
