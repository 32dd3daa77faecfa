"""DeepSets on neurons: each for itself, and what all of them have in common."""

import torch
from torch import Tensor, nn

from wsl.encoders._neuron_set import NeuronSetEncoder
from wsl.nn import ProbeFeatures
from wsl.spec import WeightSpec


class DeepSets(NeuronSetEncoder):
    """A network as sets of neurons, which know each other by means only: a baseline without connections.

    Every neuron is described by its own weights (:class:`wsl.nn.NeuronDescription`); then permutation
    equivariant layers. With ``s`` the node set of neuron ``i`` and ``g`` the state of the network::

        z_i  = relu(A h_i + B mean_{j in s} h_j + C g + a)
        g   <- norm(g + E relu(D [g, mean over node sets of mean_{j in s} h_j] + d) + e)
        h_i <- norm(h_i + F z_i + f)

    Invariant to more than the symmetries of the network: it is blind to which neuron is connected with which.
    Where the axes of a node set are a family, it is pooled over all of them. Identity edges are not read.

    No learnable parameter depends on the specification: :meth:`for_spec` reads other architectures with the
    same ones. Accepts every specification.

    Args:
        spec: the specification of the weights.
        channels: width of all states, and of the output.
        layers: number of equivariant layers.
        frequencies: Gaussian Fourier frequencies for every weight.
        probes: activations of the networks at learned inputs as further node features.

    Raises:
        SpecError: the probe features are of an architecture that is not ``spec``'s.
        ValueError: no channels, or a negative number of layers or frequencies.

    Source: Zaheer et al. 2017, eq. 4 and section 3.1 (arXiv:1703.06114): phi is the description and the
    layers, the pooling and rho are those of :class:`wsl.nn.InvariantHead`. Deviates: means (not sums or
    maxima) over each node set and over all, residual layers with norms.
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
        super().__init__(spec, channels, layers, frequencies, probes)
        self.layers = nn.ModuleList(_Layer(channels) for _ in range(layers))

    def mix(self, nodes: Tensor, network: Tensor) -> tuple[Tensor, Tensor]:
        sizes = list(self.layout.sizes.values())
        for layer in self.layers:
            nodes, network = layer(nodes, network, sizes)
        return nodes, network


class _Layer(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.node_in = nn.Linear(channels, channels)
        self.set_in = nn.Linear(channels, channels, bias=False)
        self.network_to_nodes = nn.Linear(channels, channels, bias=False)
        self.node_out = nn.Linear(channels, channels)
        self.node_norm = nn.LayerNorm(channels)
        self.network_in = nn.Linear(2 * channels, channels)
        self.network_out = nn.Linear(channels, channels)
        self.network_norm = nn.LayerNorm(channels)

    def forward(self, nodes: Tensor, network: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor]:
        pooled = torch.stack([part.mean(1) for part in nodes.split(sizes, dim=1)], dim=1)
        common = self.set_in(pooled) + self.network_to_nodes(network).unsqueeze(1)
        spread = [part.expand(-1, size, -1) for part, size in zip(common.split(1, dim=1), sizes, strict=True)]
        hidden = (self.node_in(nodes) + torch.cat(spread, dim=1)).relu()
        update = self.network_in(torch.cat([network, pooled.mean(1)], dim=-1)).relu()
        network = self.network_norm(network + self.network_out(update))
        return self.node_norm(nodes + self.node_out(hidden)), network
