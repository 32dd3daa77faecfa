"""What holds for the topology of every architecture in the tables."""

from collections import Counter

import architectures
import pytest
import torch

import wsl
from wsl.spec import WeightSpec


@pytest.mark.parametrize("name", sorted(architectures.KNOWN))
def test_every_block_has_an_edge_and_every_node_set_is_reached(name: str) -> None:
    row = architectures.KNOWN[name]
    torch.manual_seed(0)
    module, inputs = row.build(), row.inputs()
    spec = wsl.trace(module, inputs)
    topology = spec.topology
    counts = Counter(topology.edges)
    assert max(counts.values()) == 1, f"edges that occur twice: {counts.most_common(3)}"
    lacking = {ref.key for ref in spec.blocks if ref.block.neuron_dims} - {e.block for e in topology.edges}
    assert name == "unused" or not lacking, f"blocks on no edge: {lacking}"
    targets = {edge.target for edge in topology.edges}
    for node in topology.nodes:
        inputs_only = all(spec.axes[axis].kind in ("input", "fixed", "output") for axis in node.axes)
        assert node.name in targets or inputs_only, f"nothing leads to {node}"
    assert len(topology.nodes) <= 6 + len(spec.tensors) * 3, "node sets grow with the run, not the network"
    assert WeightSpec.parse(str(spec)) == spec
