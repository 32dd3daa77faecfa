"""The recommended fast encoder: runs on learned inputs, and messages without states of edges."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Self

import torch
from torch import Tensor, nn

from wsl.encoders._any_spec import AnySpecEncoder
from wsl.encoders._base import DeferredTensors, WeightFeatures
from wsl.graph import GraphBlock
from wsl.nn import (
    BilinearReadout,
    FastEmbedding,
    LearnedRun,
    NetworkUpdate,
    PositionGains,
    ProbeFeatures,
    WeightedMessages,
    WeightReadout,
    kind_means,
    run_order,
    scalar_features,
)
from wsl.spec import WeightSpec


class AveragedTensors(DeferredTensors):
    """Features of weights that know their mean over a block without being made."""

    def __init__(
        self, makers: Mapping[str, Callable[[], Tensor]], means: Mapping[str, Callable[[], Tensor]]
    ) -> None:
        super().__init__(makers)
        self._means = dict(means)

    def mean(self, key: str) -> Tensor:
        """The mean of the features of block ``key`` over all of its weights, ``(B, C)``."""
        if key in self._means:
            return self._means[key]()
        features = self[key]
        entries = list(range(1, features.dim() - 1))
        return features.mean(entries) if entries else features


class FastGraphMetanetwork(AnySpecEncoder):
    """Encodes the weights of any architecture: learned runs of the networks, then cheap message passing.

    Made for speed: edges have no states, so that nothing but matrices of weights grows with their number.
    What it can tell apart, it tells by running: the computational graph says which sums of which products
    become which activations, so every network is run on learned inputs, weights alone being known. Then a few
    rounds of messages between neurons, multiplied by functions of the weights, and a state of the whole
    network that reads all neurons. Features of weights are bilinear in the states of both ends; invariant
    heads read their mean, for which none of them is made.

    Equivariant to every permutation of hidden neurons. No learnable parameter depends on the specification:
    :meth:`for_spec` reads other architectures with the same ones. Networks run with their raw weights, scaled
    by the statistics.

    Args:
        spec: the specification of the weights.
        channels: width of the states of nodes, and of the output; a multiple of twice ``heads``.
        layers: rounds of message passing.
        runs: number of learned inputs that every network is run on; 0 for none.
        heads: number of scalar functions of weights that messages are multiplied by.
        width: of the state of the network.
        network_layers: updates of that state after the last round.
        frequencies: Gaussian Fourier frequencies for every weight on a node.
        probes: activations of the networks at learned inputs as further node features, run by their module.

    Raises:
        SpecError: the probe features are of an architecture that is not ``spec``'s.
        ValueError: no channels, heads or width, a negative number of layers, frequencies or runs, or
            ``channels`` that are not shared evenly by the heads of both directions.

    Source: the computational graph of Lim et al. 2023 (arXiv:2312.04501) and Kofinas et al. 2024
    (arXiv:2403.12143), whose probe features the runs follow, and the invariant answers of Kahana et al. 2024
    (arXiv:2410.10811). The design is our own.
    """

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 64,
        layers: int = 1,
        *,
        runs: int = 64,
        heads: int = 4,
        width: int = 128,
        network_layers: int = 2,
        frequencies: int = 16,
        probes: ProbeFeatures | None = None,
    ) -> None:
        super().__init__(spec, channels, layers, probes)
        if heads < 1 or channels % (2 * heads):
            raise ValueError(
                f"channels are shared by the heads of two directions, so they must be a multiple of "
                f"2 * heads, got channels={channels}, heads={heads}."
            )
        if runs < 0 or network_layers < 0 or width < 1:
            raise ValueError(
                "expected runs >= 0, network_layers >= 0 and width >= 1, "
                f"got {runs}, {network_layers} and {width}."
            )
        self.heads = heads
        self.run = LearnedRun(runs) if runs else None
        self.order = run_order(self.layout)
        self.embedding = FastEmbedding(channels, width, frequencies, heads, runs + self.probe_channels)
        self.gains = PositionGains(channels // (2 * heads))
        self.layers = nn.ModuleList(WeightedMessages(channels, heads, width) for _ in range(layers))
        self.network_updates = nn.ModuleList(NetworkUpdate(width, channels) for _ in range(layers + 1))
        self.network_layers = nn.ModuleList(NetworkUpdate(width, 0) for _ in range(network_layers))
        self.network_out = nn.Linear(width, channels)
        self.readout = WeightReadout(self.embedding.fourier.channels, channels)
        self.edge_readout = BilinearReadout(channels, max(1, channels // 4), heads)

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        layout = self.layout
        standard, raw = self.read(weights), self.spec.split(weights)
        blocks = {block.key: block.to_graph(standard[block.key]) for block in layout.blocks}
        functions = {block.key: scalar_features(blocks[block.key], self.heads) for block in layout.edges}
        activity = self._activity(weights, {b.key: b.to_graph(raw[b.key]) for b in layout.blocks})
        nodes, network = self.embedding(layout, blocks, functions, activity)
        gains = {block.key: self.gains(block, network) for block in layout.edges}
        apart = {key: values.flatten(0, 1) for key, values in functions.items()}
        network = self.network_updates[0](network, kind_means(layout, nodes))
        for layer, update in zip(self.layers, self.network_updates[1:], strict=True):
            nodes = layer(layout, apart, gains, nodes, network)
            network = update(network, kind_means(layout, nodes))
        for update in self.network_layers:
            network = update(network)
        shared = self.network_out(network)
        return self._features(blocks, functions, nodes + shared.unsqueeze(1), shared)

    def for_spec(self, spec: WeightSpec, probes: ProbeFeatures | None = None) -> Self:
        twin = super().for_spec(spec, probes)
        twin.order = run_order(twin.layout)
        return twin

    def _activity(self, weights: Mapping[str, Tensor], raw: Mapping[str, Tensor]) -> Tensor | None:
        """What all nodes do at learned inputs, ``(B, N, runs + probes)``."""
        parts = []
        if self.run is not None:
            squares = self.mean.square() + self.std.square()
            keys = (ref.key for ref in self.spec.blocks)
            parts.append(self.run(self.layout, self.order, raw, dict(zip(keys, squares, strict=True))))
        if self.probes is not None:
            found, count = self.probes(weights), len(next(iter(raw.values())))
            none = self.mean.new_zeros(1, 1, 1)
            parts.append(
                torch.cat(
                    [
                        found[name] if name in found else none.expand(count, size, self.probes.channels)
                        for name, size in self.layout.sizes.items()
                    ],
                    dim=1,
                )
            )
        return torch.cat(parts, dim=-1) if parts else None

    def _features(
        self,
        blocks: Mapping[str, Tensor],
        functions: Mapping[str, Tensor],
        states: Tensor,
        network: Tensor,
    ) -> WeightFeatures:
        layout = self.layout
        nodes = {name: states[:, rows] for name, rows in layout.slices.items()}
        factors = cache(lambda: self.edge_readout.factors(states))

        def feature(block: GraphBlock) -> Tensor:
            if block.is_edge:
                found = self.edge_readout(layout, block, blocks[block.key], functions[block.key], states)
            else:
                owner = block.from_nodes(nodes.__getitem__) if block.uses else network
                found = self.readout(block, owner, lambda: self.embedding.fourier(blocks[block.key]))
            return block.from_graph(found)

        def mean(block: GraphBlock) -> Tensor:
            return self.edge_readout.mean(
                layout, block, blocks[block.key], functions[block.key], states, factors()
            )

        return WeightFeatures(
            AveragedTensors(
                {block.key: partial(feature, block) for block in layout.blocks},
                {block.key: partial(mean, block) for block in layout.edges},
            ),
            nodes,
        )
