"""The graph metanetwork: the battery of all encoders, uses of weights, other architectures, probes."""

import pytest
import torch
from encoder_suite import EncoderSuite
from known_topologies import TOPOLOGIES
from small_networks import CNN, MLP, largest_difference
from torch import Tensor, nn

import wsl
from wsl.encoders import GraphMetanetwork
from wsl.models import Siren, coordinate_grid
from wsl.nn import InvariantHead, ProbeFeatures
from wsl.spec import SpecError, WeightSpec
from wsl.testing import assert_equivariant, assert_invariant, random_weights


class TestGraphMetanetwork(EncoderSuite):
    def make(self, spec: WeightSpec) -> GraphMetanetwork:
        return GraphMetanetwork(spec, channels=6, layers=2, frequencies=3)


def test_every_use_of_a_weight_counts() -> None:
    """A tied weight sends messages along all of its uses: cutting one changes what arrives."""
    spec = TOPOLOGIES["unrolled"]
    once = WeightSpec(
        spec.axes,
        spec.tensors,
        nodes=spec.nodes,
        edges=[e for e in spec.edges if e.target != "h.3" or e.block == "hh.weight"],
    )
    encoder = GraphMetanetwork(spec, channels=6, layers=2, frequencies=3).double()
    weights = random_weights(spec, 1)
    full, cut = encoder(weights), encoder.for_spec(once)(weights)
    assert (full.nodes["h.3"] - cut.nodes["h.3"]).abs().max() > 1e-3
    assert (full.nodes["y"] - cut.nodes["y"]).abs().max() > 1e-6


def test_residual_connections_carry_states() -> None:
    """Without the identity edge another function of the same weights is encoded, and features differ."""
    spec = TOPOLOGIES["residual"]
    plain = WeightSpec(spec.axes, spec.tensors, nodes=spec.nodes, edges=[e for e in spec.edges if e.block])
    encoder = GraphMetanetwork(spec, channels=6, layers=2, frequencies=3).double()
    weights = random_weights(spec, 1)
    nodes = encoder(weights).nodes["h1.2"], encoder.for_spec(plain)(weights).nodes["h1.2"]
    assert (nodes[0] - nodes[1]).abs().max() > 1e-3


def test_edges_have_directions() -> None:
    """A matrix that is stored the other way round is the same graph, and gives the same features."""
    texts = [
        f"axes h: 3 hidden relu  x: 2 input  y: 2 output\nfc.weight {fc}\nhead.weight {head}\n"
        f"nodes x: x  h: h relu  y: y\nedge: x h fc.weight{ends}\nedge: h y head.weight{ends}"
        for fc, head, ends in (("h x", "y h", ""), ("x h", "h y", " ends=st"))
    ]
    rows, columns = map(WeightSpec.parse, texts)
    encoder = GraphMetanetwork(rows, channels=6, layers=2, frequencies=3).double()
    weights = random_weights(rows, 2)
    transposed = {name: weight.mT for name, weight in weights.items()}
    a, b = encoder(weights), encoder.for_spec(columns)(transposed)
    for name in a.nodes:
        assert torch.allclose(a.nodes[name], b.nodes[name], atol=1e-12)


def test_reads_other_architectures_with_the_same_parameters() -> None:
    encoder = GraphMetanetwork(MLP, channels=6, layers=2, frequencies=3).double()
    other = encoder.for_spec(CNN)
    fresh = GraphMetanetwork(CNN, channels=6, layers=2, frequencies=3).double()
    fresh.load_state_dict({**encoder.state_dict(), "mean": fresh.mean, "std": fresh.std})
    weights = random_weights(CNN, 2)
    assert largest_difference(other(weights), fresh(weights)) == 0
    assert [id(p) for p in other.parameters()] == [id(p) for p in encoder.parameters()]
    keys = [ref.key for ref in CNN.blocks]
    other.set_statistics(dict.fromkeys(keys, 0.0), dict.fromkeys(keys, 3.0))
    assert encoder.spec == MLP and encoder.std.tolist() == [1.0] * 6
    assert_equivariant(other, CNN)


def test_tells_blocks_of_one_axis_apart() -> None:
    """A layer's bias and the bias of the norm after it are different parameters of one neuron."""
    spec = WeightSpec.parse(
        "axes h: 2 hidden  x: 1 input  y: 1 output\n"
        "fc.weight h x\nfc.bias h\nnorm.weight h\nnorm.bias h\nhead.weight y h\nq.weight h h\nk.weight h h"
    )
    encoder = GraphMetanetwork(spec, channels=6, layers=2, frequencies=3).double()
    weights = random_weights(spec, 1)
    for a, b in (("fc.bias", "norm.bias"), ("q.weight", "k.weight"), ("norm.weight", "norm.bias")):
        swapped = {**weights, a: weights[b], b: weights[a]}
        nodes = encoder(weights).nodes["y"], encoder(swapped).nodes["y"]
        assert (nodes[0] - nodes[1]).abs().max() > 1e-6, (a, b)


def test_probes_are_equivariant_and_learned() -> None:
    spec = _siren_spec()
    probes = ProbeFeatures(Siren(2, (5, 4), 1), spec, coordinate_grid((4, 4)), probes=7)
    encoder = GraphMetanetwork(spec, channels=6, layers=1, frequencies=2, probes=probes).double()
    head = InvariantHead(spec, 6, 3).double()
    assert_equivariant(encoder, spec)
    assert_invariant(nn.Sequential(encoder, head), spec)
    head(encoder(random_weights(spec, 2))).sum().backward()
    assert probes.inputs[0].grad is not None and probes.inputs[0].grad.abs().max() > 0


def test_second_derivatives() -> None:
    encoder = GraphMetanetwork(MLP, channels=4, layers=2).double()
    weights, direction = random_weights(MLP, 1), random_weights(MLP, 1, torch.Generator().manual_seed(1))

    def slope(step: float) -> Tensor:
        """The derivative along ``direction``, ``step`` further on."""
        moved = {name: (w + step * direction[name]).requires_grad_() for name, w in weights.items()}
        out = sum(nodes.square().sum() for nodes in encoder(moved).nodes.values())
        grads = torch.autograd.grad(out, list(moved.values()), create_graph=True)
        return sum((g * d).sum() for g, d in zip(grads, direction.values(), strict=True))

    used = [p for name, p in encoder.layers[0].named_parameters() if name != "identity"]
    grads = torch.autograd.grad(slope(0.0), used)
    start = [parameter.detach().clone() for parameter in used]
    moves = [torch.randn_like(parameter) for parameter in start]
    ends = []
    for step in (1e-7, -1e-7):
        with torch.no_grad():
            for parameter, at, move in zip(used, start, moves, strict=True):
                parameter.copy_(at + step * move)
        ends.append(slope(0.0).item())
    expected = (ends[0] - ends[1]) / 2e-7
    found = sum((g * m).sum().item() for g, m in zip(grads, moves, strict=True))
    assert found == pytest.approx(expected, rel=1e-4)


def test_probes_of_another_architecture_are_refused() -> None:
    spec, grid = _siren_spec(), coordinate_grid((4, 4))
    with pytest.raises(SpecError, match="not of the architecture of the spec"):
        ProbeFeatures(Siren(2, (5, 3), 1), spec, grid)
    probes = ProbeFeatures(Siren(2, (5, 4), 1), spec, grid, probes=3)
    other = wsl.trace(Siren(2, (5, 3), 1), grid)
    with pytest.raises(SpecError, match="of another architecture than the encoder"):
        GraphMetanetwork(other, channels=4, layers=1, probes=probes)
    encoder = GraphMetanetwork(spec, channels=4, layers=1, probes=probes)
    with pytest.raises(SpecError, match="of another architecture than the encoder"):
        encoder.for_spec(other, probes)


def _siren_spec() -> WeightSpec:
    return wsl.trace(Siren(2, (5, 4), 1), coordinate_grid((4, 4)))
