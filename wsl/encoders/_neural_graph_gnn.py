"""The graph neural network of neural graphs: statistics of messages, modulated by weights."""

import torch
from torch import nn

from wsl.encoders._neural_graph import NeuralGraphEncoder
from wsl.nn import EdgeUpdate, PrincipalAggregation, ProbeFeatures, WeightEmbedding, WeightReadout
from wsl.spec import WeightSpec


class NeuralGraphGNN(NeuralGraphEncoder):
    """NG-GNN: encodes the weights of any architecture as a graph, with principal neighbourhood aggregation.

    Neurons are nodes (with their biases, norm parameters, running statistics, activation and position),
    weights are edges, residual connections are edges without weights. Messages between neurons are scaled and
    shifted by the weights between them (FiLM) and go along edges and against them. A node reads mean,
    minimum, maximum and standard deviation of all that it receives, plain and scaled by the logarithm of
    their number; then edges are updated from their ends. No learnable parameter depends on the specification,
    of which any kind is accepted: :meth:`for_spec` reads other architectures with the same ones.

    Args:
        spec: the specification of the weights.
        channels: width of all states, and of the output.
        layers: number of layers.
        frequencies: Gaussian Fourier frequencies for every weight.
        probes: activations of the networks at learned inputs as further node features.
        checkpoint: compute what happens on edges again in the backward pass: the same results, slower, in
            about a third of the memory.

    Raises:
        SpecError: the probe features are of an architecture that is not ``spec``'s.
        ValueError: no channels, or a negative number of layers or frequencies.

    Source: Kofinas et al. 2024 (arXiv:2403.12143), section 3 and appendix, on Corso et al. 2020
    (arXiv:2004.05718); defaults as for its implicit representations. Deviates:

    * Embeddings of layers, inputs, outputs and activations are maps of what the specification says of a
      neuron, not tables with a row a layer; kernels are sums over positions with gains, not padded
      (:class:`wsl.nn.WeightEmbedding`).
    * A weight has one state, which each direction reads by maps of its own; the paper's reverse features
      ``[w, w^T]`` give each direction an edge with a state, which costs twice as much.
    * Norms are over the channels of one node: a network's features do not depend on the others in its batch.
    * Two linear maps in a row are one; degrees are measured against 32, not against the training set.
    * Where nodes share weights (tokens, heads), messages are of their mean, as in
      :class:`wsl.nn.MessagePassing`; weights without neurons are added to all nodes.
    """

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 32,
        layers: int = 4,
        *,
        frequencies: int = 16,
        probes: ProbeFeatures | None = None,
        checkpoint: bool = False,
    ) -> None:
        super().__init__(spec, channels, layers, probes)
        self.checkpoint = checkpoint
        self.embedding = WeightEmbedding(channels, frequencies, self.probe_channels)
        self.identity = nn.Parameter(torch.zeros(channels))
        self.layers = nn.ModuleList(
            PrincipalAggregation(channels, activate=i < layers - 1) for i in range(layers)
        )
        self.edge_updates = nn.ModuleList(EdgeUpdate(channels) for _ in range(layers))
        self.edges_out = nn.Identity()
        self.readout = WeightReadout(self.embedding.fourier.channels, channels)
