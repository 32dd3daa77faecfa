"""DeepSets on neurons: the battery of all encoders, what describes a neuron, other architectures."""

import pytest
import torch
from encoder_suite import EncoderSuite
from hypothesis import given, settings
from known_topologies import TOPOLOGIES, WITH_HYPEREDGES
from random_topologies import random_topologies
from small_networks import CNN, MLP, largest_difference
from torch import Tensor

from wsl.encoders import DeepSets
from wsl.graph import graph_layout
from wsl.nn._neurons import meet_ends
from wsl.nn._positions import neuron_features
from wsl.spec import WeightSpec
from wsl.testing import assert_equivariant, random_weights


class TestDeepSets(EncoderSuite):
    def make(self, spec: WeightSpec) -> DeepSets:
        return DeepSets(spec, channels=6, layers=2, frequencies=3)


@settings(max_examples=25)
@given(spec=random_topologies())
def test_any_topology(spec: WeightSpec) -> None:
    torch.manual_seed(0)
    assert_equivariant(DeepSets(spec, channels=4, layers=1, frequencies=1).double(), spec, trials=1)


@pytest.mark.parametrize("name", WITH_HYPEREDGES)
def test_hyperedges(name: str) -> None:
    spec = WITH_HYPEREDGES[name]
    assert_equivariant(DeepSets(spec, channels=6, layers=2, frequencies=3).double(), spec, atol=1e-9)


def test_neurons_are_described_by_their_own_weights() -> None:
    weights = random_weights(MLP, 1)
    for name, index, owners in (
        ("fc2.weight", (0, 1, 2), {("h2", 1), ("h1", 2)}),
        ("fc1.weight", (0, 0, 1), {("h1", 0), ("x", 1)}),
        ("fc2.bias", (0, 1), {("h2", 1)}),
    ):
        changed = {**weights, name: weights[name].clone()}
        changed[name][index] += 0.1
        before, after = _descriptions(weights), _descriptions(changed)
        moved = {
            (nodes, i)
            for nodes in before
            for i in range(before[nodes].shape[1])
            if not torch.allclose(before[nodes][:, i], after[nodes][:, i])
        }
        assert moved == owners


def test_without_layers_neurons_do_not_know_of_each_other() -> None:
    """With layers they do: a change of one neuron's bias reaches all others, and the network's state."""
    weights = random_weights(MLP, 1)
    changed = {**weights, "fc2.bias": weights["fc2.bias"] + 0.1}
    for layers, reached in ((0, False), (1, False), (2, True)):
        torch.manual_seed(0)
        encoder = DeepSets(MLP, channels=6, layers=layers, frequencies=3).double()
        gap = (encoder(weights).nodes["x"] - encoder(changed).nodes["x"]).abs().max()
        assert (gap > 1e-9) == reached, layers


def test_description_equals_loops() -> None:
    encoder = _seeded(MLP)
    description, layout = encoder.neurons, graph_layout(MLP)
    start = encoder.embed(random_weights(MLP, 2))[1]
    constants = neuron_features(layout, torch.float64, torch.device("cpu"))
    target, source = description.ends(constants).chunk(2, dim=1)
    own: dict[tuple[int, bool], list[Tensor]] = {}
    for key, to, of in (("fc1.weight", "h1", "x"), ("fc2.weight", "h2", "h1"), ("fc3.weight", "y", "h2")):
        for i in range(layout.sizes[to]):
            for j in range(layout.sizes[of]):
                a, b = layout.slices[to].start + i, layout.slices[of].start + j
                edge = (start.edges[key][:, i, j] + target[a] + source[b]).relu()
                own.setdefault((a, True), []).append(edge)
                own.setdefault((b, False), []).append(edge)
    rows = []
    for i in range(len(constants)):
        means = [
            torch.stack(own[i, side]).mean(0) if (i, side) in own else torch.zeros(2, 6).double()
            for side in (True, False)
        ]
        update = description.weights_in(torch.cat(means, dim=1))
        rows.append(description.norm(start.nodes[:, i] + update))
    assert torch.allclose(description(layout, start).nodes, torch.stack(rows, dim=1), atol=1e-12)


def test_a_weight_that_is_used_twice_meets_the_mean_of_its_ends() -> None:
    spec = TOPOLOGIES["tied"]  # from x to h, and from h back to y
    layout = graph_layout(spec)
    block = next(block for block in layout.edges if block.key == "weight")
    ends = (("h", True), ("x", False), ("y", True), ("h", False))
    terms = {end: torch.randn(2, layout.sizes[end[0]], 6).double() for end in ends}
    edges = torch.randn(2, 3, 4, 6).double()
    at_h = terms["h", True] + terms["h", False]
    at_x = terms["x", False] + terms["y", True]
    expected = (edges + (at_h.unsqueeze(2) + at_x.unsqueeze(1)) / 2).relu()
    found = meet_ends(block, edges, lambda end: terms[end.nodes, end.target])
    assert torch.allclose(found, expected, atol=1e-12)


def test_reads_other_architectures_with_the_same_parameters() -> None:
    encoder = _seeded(MLP)
    other, fresh = encoder.for_spec(CNN), _seeded(CNN)
    fresh.load_state_dict({**encoder.state_dict(), "mean": fresh.mean, "std": fresh.std})
    weights = random_weights(CNN, 2)
    assert largest_difference(other(weights), fresh(weights)) == 0
    assert [id(p) for p in other.parameters()] == [id(p) for p in encoder.parameters()]
    keys = [ref.key for ref in CNN.blocks]
    other.set_statistics(dict.fromkeys(keys, 0.0), dict.fromkeys(keys, 3.0))
    assert encoder.spec == MLP and encoder.std.tolist() == [1.0] * 6


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="layers=-1"):
        DeepSets(MLP, channels=4, layers=-1)


def _seeded(spec: WeightSpec) -> DeepSets:
    torch.manual_seed(0)
    return DeepSets(spec, channels=6, layers=2, frequencies=3).double()


def _descriptions(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    encoder, layout = _seeded(MLP), graph_layout(MLP)
    nodes = encoder.neurons(layout, encoder.embed(weights)[1]).nodes
    return {name: nodes[:, rows] for name, rows in layout.slices.items()}
