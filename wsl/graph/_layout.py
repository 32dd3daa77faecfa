"""The computational graph of an architecture: node sets, and what lies on and between them."""

import itertools
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from wsl.graph._block import GraphBlock
from wsl.graph._ends import Use
from wsl.graph._uses import build_blocks, build_identities
from wsl.spec import WeightSpec


@dataclass(frozen=True, eq=False)
class GraphLayout:
    """The computational graph of an architecture, without weights.

    Nodes are those of the node sets of ``spec.topology``; ``blocks`` says what each block of the
    specification becomes. Make it with :func:`graph_layout`, which caches it.

    Args:
        spec: the specification.
        blocks: a part of the graph for every block of the specification.
        identities: the edges without weights, such as those of residual connections.
    """

    spec: WeightSpec
    blocks: tuple[GraphBlock, ...]
    identities: tuple[Use, ...]

    @cached_property
    def edges(self) -> tuple[GraphBlock, ...]:
        """Blocks whose weights lie on edges or hyperedges."""
        return tuple(block for block in self.blocks if block.is_edge)

    @cached_property
    def nodes(self) -> tuple[GraphBlock, ...]:
        """Blocks whose weights lie on nodes."""
        return tuple(block for block in self.blocks if block.uses and not block.is_edge)

    @cached_property
    def globals(self) -> tuple[GraphBlock, ...]:
        """Blocks whose weights belong to no node and no edge."""
        return tuple(block for block in self.blocks if not block.uses and not block.is_edge)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Number of nodes of every node set."""
        return {
            nodes.name: math.prod(self.spec.axes[axis].size for axis in nodes.axes)
            for nodes in self.spec.topology.nodes
        }

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where the nodes of every node set lie in the list of all nodes."""
        stops = itertools.accumulate(self.sizes.values())
        return {
            name: slice(stop - self.sizes[name], stop) for name, stop in zip(self.sizes, stops, strict=True)
        }

    @cached_property
    def kinds(self) -> dict[str, str]:
        """What every node set is, by its axes: the first of hidden, output, input that occurs; else fixed.

        Where several sets have the axes of an input, as in an autoencoder with tied weights, those that edges
        lead to are outputs; where they have those of an output, those that none leads to are inputs.
        """
        fed = {use.target.nodes for use in self._uses if use.source is not None}
        kinds, reached = {}, {(nodes.axes, nodes.name in fed) for nodes in self.spec.topology.nodes}
        for nodes in self.spec.topology.nodes:
            found = {self.spec.axes[axis].kind for axis in nodes.axes}
            kind = next((kind for kind in ("hidden", "output", "input") if kind in found), "fixed")
            if kind in ("input", "output") and {(nodes.axes, True), (nodes.axes, False)} <= reached:
                kind = "output" if nodes.name in fed else "input"
            kinds[nodes.name] = kind
        return kinds

    @property
    def _uses(self) -> Iterator[Use]:
        """All edges between node sets, and all of what is added at them, but for blocks on nodes."""
        return itertools.chain(self.identities, *(block.uses for block in self.edges))

    @cached_property
    def indices(self) -> dict[str, Tensor]:
        """Of every node ``(n,)`` its index in those axes that may not be permuted; -1 where all may be."""
        indices = {}
        for nodes in self.spec.topology.nodes:
            axes = [self.spec.axes[axis] for axis in nodes.axes]
            ordered = [axis.size if axis.kind != "hidden" else 1 for axis in axes]
            index = torch.arange(math.prod(ordered)).reshape(ordered).expand([axis.size for axis in axes])
            hidden = axes and all(axis.kind == "hidden" for axis in axes)
            indices[nodes.name] = torch.full_like(index, -1).flatten() if hidden else index.flatten()
        return indices

    @cached_property
    def depths(self) -> dict[str, tuple[int | None, int | None]]:
        """For every node set its graph distance from inputs and to outputs; ``None`` if unreachable."""
        from_input, to_output = self._distances("input"), self._distances("output")
        return {name: (from_input.get(name), to_output.get(name)) for name in self.sizes}

    def _distances(self, kind: str) -> dict[str, int]:
        neighbours: dict[str, set[str]] = {name: set() for name in self.sizes}
        for use in self._uses:
            for end in use.ends:
                neighbours[end.nodes].update(other.nodes for other in use.ends)
        found = {name: 0 for name in self.sizes if self.kinds[name] == kind}
        queue = deque(found)
        while queue:
            name = queue.popleft()
            for other in neighbours[name] - found.keys():
                found[other] = found[name] + 1
                queue.append(other)
        return found


@lru_cache(maxsize=256)
def graph_layout(spec: WeightSpec) -> GraphLayout:
    """Derive the computational graph of ``spec``; cached, as every forward pass asks for it."""
    return GraphLayout(spec, build_blocks(spec), build_identities(spec))
