"""The graph metanetwork: the battery of all encoders, its sparse twin, other architectures, probes."""

import pytest
import torch
from encoder_suite import CNN, MLP, EncoderSuite, largest_difference
from hypothesis import assume, given, settings
from torch import Tensor, nn

import wsl
from wsl.encoders import GraphMetanetwork
from wsl.graph import GraphError
from wsl.models import Siren, coordinate_grid
from wsl.nn import EquivariantHead, InvariantHead, ProbeFeatures
from wsl.spec import SpecError, WeightSpec
from wsl.testing import assert_equivariant, assert_invariant, random_specs, random_weights


class TestGraphMetanetwork(EncoderSuite):
    def make(self, spec: WeightSpec) -> GraphMetanetwork:
        return GraphMetanetwork(spec, channels=6, layers=2, frequencies=3)


@settings(max_examples=25)
@given(spec=random_specs(["mlp", "cnn", "residual", "recurrent", "concat", "fixed"], max_size=4))
def test_equals_its_sparse_twin(spec: WeightSpec) -> None:
    torch.manual_seed(0)
    encoder = GraphMetanetwork(spec, channels=6, layers=2, frequencies=3).double()
    try:
        twin = encoder.sparse()
    except GraphError:
        assume(False)
    weights = random_weights(spec, 3)
    assert largest_difference(encoder(weights), twin(weights)) < 1e-10


def test_equals_its_sparse_twin_in_single_precision() -> None:
    spec, weights = _siren_spec(), random_weights(_siren_spec(), 4, dtype=torch.float32)
    encoder = GraphMetanetwork(spec)
    twin = encoder.sparse()
    assert largest_difference(encoder(weights), twin(weights)) < 1e-5
    assert {id(p) for p in twin.parameters()} == {id(p) for p in encoder.parameters()}


def test_sparse_refuses_hyperedges() -> None:
    spec = WeightSpec.parse(
        "axes g: 2 hidden  o: 2 hidden  x: 2 input  y: 2 output\na.weight (g o) x\nb.weight y (g o)"
    )
    with pytest.raises(GraphError, match=r"a\.weight has neuron axes \('g', 'o', 'x'\)"):
        GraphMetanetwork(spec).sparse()


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


def test_kernel_positions_are_not_exchangeable() -> None:
    encoder = GraphMetanetwork(CNN, channels=6, layers=2, frequencies=3).double()
    weights = random_weights(CNN, 1)
    for dim in (3, 4):
        flipped = {**weights, "conv2.weight": weights["conv2.weight"].flip(dim)}
        assert (encoder(weights).nodes["y"] - encoder(flipped).nodes["y"]).abs().max() > 1e-6


def test_input_and_output_neurons_are_not_exchangeable() -> None:
    encoder = GraphMetanetwork(MLP, channels=6, layers=2, frequencies=3).double()
    head = InvariantHead(MLP, 6, 3, ordered=0).double()
    weights = random_weights(MLP, 1)
    for changes in (
        {"fc1.weight": weights["fc1.weight"].flip(2)},
        {"fc3.weight": weights["fc3.weight"].flip(1)},
    ):
        assert (head(encoder(weights)) - head(encoder({**weights, **changes}))).abs().max() > 1e-6


def test_probes_are_equivariant_and_learned() -> None:
    spec = _siren_spec()
    probes = ProbeFeatures(Siren(2, (5, 4), 1), spec, coordinate_grid((4, 4)), probes=7)
    encoder = GraphMetanetwork(spec, channels=6, layers=1, frequencies=2, probes=probes).double()
    head = InvariantHead(spec, 6, 3).double()
    assert_equivariant(encoder, spec)
    assert_invariant(nn.Sequential(encoder, head), spec)
    head(encoder(random_weights(spec, 2))).sum().backward()
    assert probes.inputs[0].grad is not None and probes.inputs[0].grad.abs().max() > 0


def test_empty_batch() -> None:
    encoder = GraphMetanetwork(MLP, channels=4, layers=1)
    features = encoder({name: torch.zeros(0, *tensor.shape) for name, tensor in MLP.tensors.items()})
    assert features.nodes["h1"].shape == (0, 3, 4)
    assert InvariantHead(MLP, 4, 3)(features).shape == (0, 3)
    assert EquivariantHead(MLP, 4)(features)["fc2.weight"].shape == (0, 2, 3)


def test_second_derivatives() -> None:
    encoder = GraphMetanetwork(MLP, channels=4, layers=2).double()
    weights, direction = random_weights(MLP, 1), random_weights(MLP, 1, torch.Generator().manual_seed(1))

    def slope(step: float) -> Tensor:
        """The derivative along ``direction``, ``step`` further on."""
        moved = {name: (w + step * direction[name]).requires_grad_() for name, w in weights.items()}
        out = sum(nodes.square().sum() for nodes in encoder(moved).nodes.values())
        grads = torch.autograd.grad(out, list(moved.values()), create_graph=True)
        return sum((g * d).sum() for g, d in zip(grads, direction.values(), strict=True))

    grads = torch.autograd.grad(slope(0.0), list(encoder.layers[0].parameters()))
    start = [parameter.detach().clone() for parameter in encoder.layers[0].parameters()]
    moves = [torch.randn_like(parameter) for parameter in start]
    ends = []
    for step in (1e-7, -1e-7):
        with torch.no_grad():
            for parameter, at, move in zip(encoder.layers[0].parameters(), start, moves, strict=True):
                parameter.copy_(at + step * move)
        ends.append(slope(0.0).item())
    expected = (ends[0] - ends[1]) / 2e-7
    found = sum((g * m).sum().item() for g, m in zip(grads, moves, strict=True))
    assert found == pytest.approx(expected, rel=1e-4)


def test_autocast() -> None:
    encoder, head = GraphMetanetwork(MLP, channels=8, layers=2), EquivariantHead(MLP, 8, scale=1.0)
    weights = random_weights(MLP, 3, dtype=torch.float32)
    exact = head(encoder(weights))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = head(encoder(weights))
        sum(update.float().sum() for update in rounded.values()).backward()
    assert all((exact[name] - rounded[name]).abs().max() < 0.1 for name in exact)
    assert all(torch.isfinite(p.grad).all() for p in encoder.parameters() if p.grad is not None)
    assert encoder.layers[0].edge.weight.grad.abs().max() > 0


@pytest.mark.filterwarnings("ignore")  # of torch's compiler
def test_compiled_in_place() -> None:
    encoder, head = GraphMetanetwork(MLP, channels=4, layers=1), EquivariantHead(MLP, 4)
    weights = random_weights(MLP, 2, dtype=torch.float32)
    before = head(encoder(weights))
    encoder.compile(backend="eager")
    after = head(encoder(weights))
    assert all(torch.equal(before[name], after[name]) for name in before)


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
