"""Scale equivariant graph metanetworks: they see neither the order of neurons, nor their scale or sign."""

from collections.abc import Mapping
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn

from wsl.encoders._base import DeferredTensors, Encoder, WeightFeatures
from wsl.graph import GraphBlock, graph_layout
from wsl.nn import (
    ScaleEmbedding,
    ScaleInvariants,
    ScaleMessagePassing,
    WeightReadout,
    canonical_steps,
    canonicalise,
    edge_invariants,
    end_terms,
    flipping_connections,
    fold_edges,
    sign_characters,
)
from wsl.spec import Scaling, WeightSpec


class ScaleFeatures(WeightFeatures):
    """Invariant features, and equivariant ones for :class:`wsl.nn.ScaleEquivariantHead`.

    ``tensors`` and ``nodes`` are permuted with the weights, and do not change when these are scaled.

    Args:
        tensors, nodes: as :class:`WeightFeatures`.
        carriers: for every block key ``C`` channels for each weight that are scaled as the weight is,
            ``(B, *view, C)``.
    """

    carriers: Mapping[str, Tensor]

    def __new__(
        cls, tensors: Mapping[str, Tensor], nodes: Mapping[str, Tensor], carriers: Mapping[str, Tensor]
    ) -> Self:
        features = super().__new__(cls, tensors, nodes)
        features.carriers = carriers
        return features


class ScaleGMN(Encoder):
    """Encodes weights by messages along the computational graph, invariant to scalings and sign flips.

    Equivariant to every permutation of hidden neurons, and to the scalings that the specification lists: the
    features do not change under positive factors and sign flips, whatever mixture of them the axes have, so
    that every head works on them; :class:`wsl.nn.EquivariantHead` then makes updates that do not depend on
    the scale. For updates that are scaled as the weights are, use :class:`wsl.nn.ScaleEquivariantHead`.

    Positive factors are divided out of the weights once (:func:`wsl.nn.canonicalise`); signs are handled by
    states that flip along with neurons and weights, and symmetrised functions of them
    (:class:`wsl.nn.ScaleMessagePassing`). Along axes of kind ``linear`` both are done, which covers diagonal
    matrices; general ones change the features. Every specification is accepted: scalings that cannot be
    divided out are listed in ``unscaled`` and ignored (permutations only); where characters of signs do not
    match along some edges, as for axes with several sign flips, these carry invariants only. Blocks that
    scale are divided by their standard deviation and not centred, as centring would undo the symmetry. Of a
    neuron that can be scaled and receives nothing but zeros, no weight is seen. No learnable parameter
    depends on the specification: :meth:`for_spec` reads other architectures with the same ones.

    Args:
        spec: the specification of the weights.
        channels: width of all states, and of the output.
        layers: rounds of message passing; as many as the network has layers, or more, to see all signs.
        frequencies: Gaussian Fourier frequencies for every weight; odd ones where it changes sign.
        checkpoint: compute messages again in the backward pass: slower, in a third of the memory.

    Raises:
        ValueError: no channels, or a negative number of layers or frequencies.

    Source: Kalogeropoulos et al. 2024 (arXiv:2406.10685): its scale invariant, scale equivariant and rescale
    equivariant nets as messages, updates and readouts. Deviates: positive factors are divided out of all
    weights at once instead of from the vectors in every layer, which keeps more than their directions;
    invariant states of nodes beside the equivariant ones; Fourier features; functions of what flips are made
    even by absolute values of linear maps; norms over the channels of one state. No probe features:
    activations scale with their neurons.
    """

    bidirectional = False

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 128,
        layers: int = 4,
        *,
        frequencies: int = 16,
        checkpoint: bool = False,
    ) -> None:
        super().__init__(spec, channels)
        if layers < 0:
            raise ValueError(f"{type(self).__name__} needs at least 0 layers, got layers={layers}.")
        self.layout = graph_layout(spec)
        self.embedding = ScaleEmbedding(channels, frequencies)
        self.identity = nn.Parameter(torch.ones(channels))
        self.layers = nn.ModuleList(
            ScaleMessagePassing(channels, self.bidirectional, checkpoint) for _ in range(layers)
        )
        self.invariants = ScaleInvariants(channels)
        self.ends = nn.Linear(channels, 2 * channels)
        self.edges = nn.Linear(channels, channels, bias=False)
        self.readout = WeightReadout(self.embedding.fourier.channels, channels)

    @property
    def unscaled(self) -> tuple[Scaling, ...]:
        """Positive and linear scalings that cannot be divided out, which features are not invariant to."""
        return canonical_steps(self.spec)[1]

    def for_spec(self, spec: WeightSpec) -> Self:
        """This encoder for another architecture: the same parameters (not copies), fresh statistics."""
        twin = self._twin(spec)
        twin.layout = graph_layout(spec)
        return twin

    def read(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Blocks ``(B, *view)``, as :meth:`Encoder.read`, but blocks that scale are not centred."""
        values = super().read(weights)
        unscaled = self.unscaled
        scaled = {e.key for s in self.spec.scalings if s not in unscaled for e in s.exponents if e.power}
        blocks = self.spec.split(weights)
        return {
            key: blocks[key] / self.std[i] if key in scaled else value
            for i, (key, value) in enumerate(values.items())
        }

    def forward(self, weights: Mapping[str, Tensor]) -> ScaleFeatures:
        canonical, factors = canonicalise(self.spec, self.read(weights))
        blocks = {block.key: block.to_graph(canonical[block.key]) for block in self.layout.blocks}
        state = self.embedding(self.layout, blocks)
        nodes, invariants = state.nodes, state.invariants
        edges = fold_edges(self.layout, state.edges, self.identity, len(nodes))
        for layer in self.layers if self.layout.sizes else ():
            edges, nodes, invariants = layer(self.layout, edges, nodes, invariants)
        known = self.invariants(self.layout, nodes, invariants)
        network = state.network + known.sum(1) / max(1, known.shape[1])
        terms = end_terms(self.ends(known), nodes[..., :0])
        sets = {name: (nodes[:, rows], known[:, rows]) for name, rows in self.layout.slices.items()}
        connections = {c.key: (c, flips) for c, _, flips in flipping_connections(self.layout)}

        def invariant(block: GraphBlock) -> Tensor:
            if block.is_edge:
                connection, flips = connections[block.key]
                ends = [
                    t.gather(terms[t.end.target][:, self.layout.slices[t.end.nodes]])
                    for t in connection.terminals
                ]
                owner = edge_invariants(connection, flips, self.edges(edges[block.key]), ends)
                owner = owner.reshape(len(network), *block.sizes, self.channels)
            else:
                owner = block.from_nodes(lambda name: sets[name][1]) if block.uses else network
            features = partial(self.embedding.even_features, self.layout, block, blocks)
            return block.from_graph(self.readout(block, owner, features))

        def carrier(block: GraphBlock) -> Tensor:
            if block.is_edge:
                owner = edges[block.key].reshape(len(network), *block.sizes, self.channels)
            elif block.uses:
                owner = block.from_nodes(lambda name: sets[name][0])
                if "nothing" in sign_characters(self.layout).messages[block.key]:
                    owner = torch.zeros_like(owner)
            else:
                owner = network
            features = partial(self.embedding.own_features, self.layout, block, blocks)
            carried = block.from_graph(self.readout(block, owner, features))
            return carried * factors[block.key].unsqueeze(-1) if block.key in factors else carried

        return ScaleFeatures(
            DeferredTensors({block.key: partial(invariant, block) for block in self.layout.blocks}),
            {name: own[1] for name, own in sets.items()},
            DeferredTensors({block.key: partial(carrier, block) for block in self.layout.blocks}),
        )


class ScaleGMNBidirectional(ScaleGMN):
    """:class:`ScaleGMN` with messages in both directions.

    Backward messages multiply by what has the scale of the inverse weight: in the paper this is its
    reciprocal, here the weight divided by the square of its scale, which is bounded and exact, and equal up
    to invariants (:class:`wsl.nn.ScaleMessagePassing`).
    """

    bidirectional = True
