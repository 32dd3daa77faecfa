"""The transformer of neural graphs: attention between neurons, with weights as relations."""

import torch
from torch import nn

from wsl.encoders._neural_graph import NeuralGraphEncoder
from wsl.nn import (
    ProbeFeatures,
    RelationalAttention,
    RelationalEdgeUpdate,
    WeightEmbedding,
    WeightReadout,
)
from wsl.spec import WeightSpec


class NeuralGraphTransformer(NeuralGraphEncoder):
    """NG-T: encodes the weights of any architecture as a graph, with relational attention.

    Neurons are nodes (with their biases, norm parameters, running statistics, activation and position),
    weights are edges, residual connections are edges without weights. Every neuron attends to those that it
    shares an edge with, in both directions by one softmax; queries, keys and values depend on the edge, and
    edges are updated from their ends. No learnable parameter depends on the specification, of which any kind
    is accepted: :meth:`for_spec` reads other architectures with the same ones.

    Args:
        spec: the specification of the weights.
        channels: width of the states of neurons, and of the output; attention and MLPs are twice as wide.
        layers: number of layers.
        edge_channels: width of the states of weights; their MLPs are twice as wide.
        heads: number of attention heads.
        frequencies: Gaussian Fourier frequencies for every weight.
        probes: activations of the networks at learned inputs as further node features.
        checkpoint: compute what happens on edges again in the backward pass: the same results, slower, in
            about a sixth of the memory.

    Raises:
        SpecError: the probe features are of an architecture that is not ``spec``'s.
        ValueError: no channels, a negative number of layers or frequencies, or ``2 * channels`` is not a
            multiple of ``heads``.

    Source: Kofinas et al. 2024 (arXiv:2403.12143), section 3 and appendix, on Diao and Loynd 2023
    (arXiv:2210.05062); defaults as for its implicit representations. Deviates:

    * Attention is among neurons that share an edge. The paper's is among all pairs, most of which have no
      weight and start from zero; cost is linear in the number of weights here.
    * A weight has one state, from which each direction takes values by maps of its own, and scores with
      biases of its own; the paper's reverse features ``[w, w^T]`` give each direction a state, and the update
      of one reads the other.
    * Embeddings of layers, inputs, outputs and activations are maps of what the specification says of a
      neuron, not tables with a row a layer; kernels are sums over positions with gains, not padded
      (:class:`wsl.nn.WeightEmbedding`).
    * Two linear maps in a row are one; scores are scaled by the width of a head.
    * Where nodes share weights (tokens, heads), they are read by their mean, as in
      :class:`wsl.nn.MessagePassing`; weights without neurons are added to all nodes.
    """

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 64,
        layers: int = 4,
        *,
        edge_channels: int = 32,
        heads: int = 8,
        frequencies: int = 16,
        probes: ProbeFeatures | None = None,
        checkpoint: bool = False,
    ) -> None:
        super().__init__(spec, channels, layers, probes)
        self.checkpoint = checkpoint
        if edge_channels < 1 or heads < 1 or 2 * channels % heads:
            raise ValueError(
                "NeuralGraphTransformer needs at least one edge channel, and heads that divide 2 * channels; "
                f"got edge_channels={edge_channels}, channels={channels}, heads={heads}."
            )
        self.embedding = WeightEmbedding(channels, frequencies, self.probe_channels, edge_channels)
        self.identity = nn.Parameter(torch.zeros(edge_channels))
        self.layers = nn.ModuleList(
            RelationalAttention(channels, edge_channels, heads) for _ in range(layers)
        )
        self.edge_updates = nn.ModuleList(
            RelationalEdgeUpdate(channels, edge_channels, 2 * edge_channels) for _ in range(layers)
        )
        self.edges_out = nn.Linear(edge_channels, channels)
        self.readout = WeightReadout(self.embedding.fourier.channels, channels)
