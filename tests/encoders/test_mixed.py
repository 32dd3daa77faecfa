"""Batches of several architectures: dense by group and in one sparse graph, statistics by kind, the head."""

import copy
import math
import pickle

import pytest
import torch
from known_topologies import TOPOLOGIES, WITH_HYPEREDGES
from small_networks import CNN, MLP, SPECS, largest_difference
from torch import Tensor

import wsl
from wsl.encoders import (
    WEIGHT_KINDS,
    DeepSets,
    Encoder,
    FastGraphMetanetwork,
    FlatMLP,
    GraphMetanetwork,
    MixedEncoder,
    MixedFeatures,
    MixedWeights,
    NeuralGraphGNN,
    NeuralGraphTransformer,
    ProbeGen,
    ScaleGMN,
    SetTransformer,
    Transformer,
    weight_kinds,
)
from wsl.graph import graph_layout
from wsl.models import Siren, coordinate_grid
from wsl.nn import GeneratedProbes, PooledHead, ProbeFeatures
from wsl.spec import SpecError, WeightSpec
from wsl.testing import random_weights

ALL = [*SPECS, *TOPOLOGIES.values()]
PAIRS = [spec for spec in ALL if not any(block.is_hyperedge for block in graph_layout(spec).edges)]
FAMILIES = [
    GraphMetanetwork,
    FastGraphMetanetwork,
    NeuralGraphGNN,
    NeuralGraphTransformer,
    ScaleGMN,
    DeepSets,
    SetTransformer,
    Transformer,
]


def encoder(spec: WeightSpec = MLP) -> GraphMetanetwork:
    torch.manual_seed(0)
    made = GraphMetanetwork(spec, channels=6, layers=2, frequencies=3).double()
    with torch.no_grad():
        for layer in made.layers:
            layer.identity.copy_(torch.randn_like(layer.identity))  # else both directions have one map
    return made


def mixed(
    kind: type[Encoder] = GraphMetanetwork, dense_from: float = math.inf, **options: int
) -> MixedEncoder:
    """With statistics that differ by kind."""
    torch.manual_seed(0)
    made = MixedEncoder(kind(MLP, channels=8, layers=1, **options), dense_from=dense_from).double()
    drawn = torch.rand(len(WEIGHT_KINDS), generator=torch.Generator().manual_seed(0)).tolist()
    made.set_statistics(
        dict(zip(WEIGHT_KINDS, drawn, strict=True)),
        {k: 0.5 + d for k, d in zip(WEIGHT_KINDS, drawn, strict=True)},
    )
    return made


def groups(
    specs: list[WeightSpec], counts: list[int] | None = None
) -> list[tuple[WeightSpec, dict[str, Tensor]]]:
    counts = counts or [1 + i % 3 for i in range(len(specs))]
    seeds = map(torch.Generator().manual_seed, range(len(specs)))
    return [(spec, random_weights(spec, n, seed)) for spec, n, seed in zip(specs, counts, seeds, strict=True)]


def worst(a: MixedFeatures, b: MixedFeatures) -> float:
    assert [spec for spec, _ in a] == [spec for spec, _ in b]
    return max(largest_difference(x, y) for (_, x), (_, y) in zip(a, b, strict=True))


def total(features: MixedFeatures) -> Tensor:
    """A function of all features that tells them apart."""
    parts = [part for _, own in features for values in own for part in values.values()]
    return torch.stack([(part * (part + i).cos()).sum() for i, part in enumerate(parts)]).sum()


@pytest.mark.parametrize("form", ["fused", "torch_geometric"])
@pytest.mark.parametrize("specs", [PAIRS, [MLP, CNN], [MLP, MLP]], ids=["any", "no shared weights", "alike"])
def test_one_sparse_graph_equals_dense_groups(form: str, specs: list[WeightSpec]) -> None:
    made = MixedEncoder(encoder(), dense_from=math.inf).double()
    given = groups(specs)
    results, grads = [], []
    for sparse in (False, True):
        leaves = [tensor.requires_grad_() for _, weights in given for tensor in weights.values()]
        twins = [(made.twin(spec), weights) for spec, weights in given]
        if not sparse:
            found = [(spec, twin(weights)) for (spec, _), (twin, weights) in zip(given, twins, strict=True)]
        elif form == "fused":
            found = made(given)
        else:
            own = made.encoder.sparse().mixed(twins)
            found = [(spec, features) for (spec, _), features in zip(given, own, strict=True)]
        results.append(found)
        inputs = [*made.parameters(), *leaves]
        grads.append(torch.autograd.grad(total(found), inputs, allow_unused=True, materialize_grads=True))
    assert worst(*results) < 1e-9
    for a, b in zip(*grads, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("spec", PAIRS[:6], ids=range(6))
def test_the_fused_form_equals_the_dense_one_of_one_network(spec: WeightSpec) -> None:
    made = MixedEncoder(encoder(), dense_from=math.inf).double()
    given = groups([spec, spec], [1, 2])
    assert worst(made(given), [(spec, made.twin(spec)(weights)) for spec, weights in given]) < 1e-9


def test_second_derivatives_of_the_sparse_form() -> None:
    made = mixed()
    given = groups([MLP, CNN], [1, 1])

    def slopes(function: MixedEncoder) -> list[Tensor]:
        leaves = [tensor.requires_grad_() for _, weights in given for tensor in weights.values()]
        first = torch.autograd.grad(total(function(given)), leaves, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)

    dense = MixedEncoder(made.encoder, dense_from=0).double()
    dense.load_state_dict(made.state_dict())
    for a, b in zip(slopes(made), slopes(dense), strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", FAMILIES, ids=lambda kind: kind.__name__)
def test_a_network_is_encoded_the_same_in_any_batch(kind: type[Encoder]) -> None:
    """Alone, and with others of the same and of other architectures; in training and in evaluation."""
    made, head = mixed(kind), PooledHead(8, 3).double()
    given = groups(SPECS, [2, 3, 1])
    together = head(made(given))
    alone = [
        head(made([(spec, {name: tensor[i : i + 1] for name, tensor in weights.items()})]))
        for spec, weights in given
        for i in range(len(next(iter(weights.values()))))
    ]
    assert together.shape == (6, 3)
    assert torch.allclose(together, torch.cat(alone), rtol=0, atol=1e-12)
    backwards = head(made(given[::-1]))
    parts = torch.cat(backwards.split([1, 3, 2])[::-1])
    assert torch.allclose(parts, together, rtol=0, atol=1e-12)
    assert torch.equal(head.eval()(made.eval()(given)), together)


def test_networks_of_one_kind_are_standardised_alike() -> None:
    made = mixed()
    for spec in SPECS:
        twin, kinds = made.twin(spec), weight_kinds(spec)
        at = [WEIGHT_KINDS.index(kind) for kind in kinds]
        assert torch.equal(twin.mean, made.mean[at]) and torch.equal(twin.std, made.std[at])
        assert made.twin(spec) is twin
    assert weight_kinds(MLP) == (
        "weight of hidden from input",
        "bias of hidden",
        "weight of hidden from hidden",
        "bias of hidden",
        "weight of output from hidden",
        "bias of output",
    )
    assert weight_kinds(CNN)[-1] == "other"
    with pytest.raises(SpecError, match="missing or extra"):
        made.set_statistics({"weight of hidden": 0.0}, {"weight of hidden": 1.0})


def test_twins_follow_their_encoder() -> None:
    """Statistics, types and modes that change after a twin was made; copies have twins of their own."""
    made = mixed()
    given = groups([MLP, CNN])
    before, twin = made(given), made.twin(MLP)
    fine = dict.fromkeys(WEIGHT_KINDS, 1.0)
    copies = [copy.deepcopy(made), pickle.loads(pickle.dumps(made))]
    made.set_statistics(dict.fromkeys(WEIGHT_KINDS, 0.0), fine)
    after = made(given)
    assert worst(before, after) > 1e-3 and made.twin(MLP) is not twin
    with torch.no_grad():
        made.encoder.layers[0].edge.weight.add_(1.0)
    assert worst(after, made(given)) > 1e-3
    for other in copies:
        assert worst(other(given), before) == 0
    other.load_state_dict(made.state_dict())
    assert worst(other(given), made(given)) == 0
    made.float()
    assert made.twin(MLP).mean.dtype == torch.float32
    made.eval()
    assert not made.twin(MLP).training and made.train().twin(MLP).training
    assert [name for name in made.state_dict() if not name.startswith("encoder.")] == ["mean", "std"]


@pytest.mark.parametrize("kind", FAMILIES, ids=lambda kind: kind.__name__)
def test_twins_made_in_evaluation_can_be_trained(kind: type[Encoder]) -> None:
    """Of an architecture that nothing has seen before: whatever is kept for it is made in evaluation."""
    widths = 10 + FAMILIES.index(kind)
    spec = WeightSpec.parse(str(MLP).replace("h1: 3", f"h1: {widths}"))
    made = mixed(kind)
    given = groups([spec, MLP])
    with torch.inference_mode():
        made(given)
    leaves = [tensor.requires_grad_() for _, weights in given for tensor in weights.values()]
    for dense_from in (0, math.inf):
        made.dense_from = dense_from
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(total(made(given)), leaves))


def test_small_groups_run_sparse_and_large_ones_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    made = mixed(dense_from=16 * 5)
    seen: list[int] = []
    (form,) = made._sparse
    original = form.mixed
    monkeypatch.setattr(form, "mixed", lambda given: seen.append(len(given)) or original(given))
    hyper = WITH_HYPEREDGES["unused"]
    given: MixedWeights = groups([MLP, CNN, MLP, hyper, MLP], [1, 1, 5, 1, 4])
    dense = [(spec, made.twin(spec)(weights)) for spec, weights in given]
    assert worst(made(given), dense) < 1e-9 and seen == [3]
    made(given[2:4])
    made(given[:1])
    assert seen == [3], "the sparse form is for several groups"
    made.dense_from = 0
    made(given)
    assert seen == [3]


def test_empty_groups() -> None:
    made, head = mixed(), PooledHead(8, 3).double()
    given = groups([MLP, CNN, MLP], [2, 0, 1])
    assert torch.equal(head(made(given)), head(made([given[0], given[2]])))
    assert head(made(groups([MLP], [0]))).shape == (0, 3)


def test_autocast() -> None:
    made, given = mixed().float(), groups([MLP, CNN])
    single = [(spec, {n: t.float() for n, t in weights.items()}) for spec, weights in given]
    head = PooledHead(8, 3)
    exact = head(made(single))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = head(made(single))
    rounded.float().sum().backward()
    assert (rounded - exact).abs().max() < 0.1
    assert made.encoder.layers[0].edge.weight.grad.abs().max() > 0


def test_probes_run_the_networks_of_each_architecture() -> None:
    """On inputs that all share: those of the encoder itself, which gradients reach from every group."""
    grid = coordinate_grid((4, 4))
    sirens = [Siren(2, hidden, 1) for hidden in ((5, 4), (3, 6))]
    specs = [wsl.trace(siren, grid) for siren in sirens]
    modules = dict(zip(specs, sirens, strict=True))
    for kind in (GraphMetanetwork, ProbeGen):
        torch.manual_seed(0)
        probes = kind.probe_features(sirens[0], specs[0], grid, 3)
        encoder = kind(specs[0], channels=4, layers=1, probes=probes)
        mixed = MixedEncoder(encoder, modules=modules.__getitem__)
        groups = [(spec, random_weights(spec, 2, dtype=torch.float32)) for spec in specs]
        own = probes.for_module(sirens[1], specs[1])
        assert all(a is b for a, b in zip(own.parameters(), probes.parameters(), strict=True))
        for (_, found), twin in zip(mixed(groups), (encoder, encoder.for_spec(specs[1], own)), strict=True):
            expected = twin(groups[0 if twin is encoder else 1][1])
            assert largest_difference(found, expected) < 1e-6
        for i in range(2):
            encoder.zero_grad()
            sum(x.square().sum() for x in mixed(groups)[i][1].nodes.values()).backward()
            assert all(p.grad is not None and p.grad.any() for p in probes.parameters() if p.requires_grad)


def test_probes_of_networks_that_do_not_run_on_the_same_inputs() -> None:
    siren, other = Siren(2, (5,), 1), Siren(3, (5,), 1)
    specs = [wsl.trace(module, coordinate_grid((2,) * n)) for n, module in ((2, siren), (3, other))]
    for kind in (ProbeFeatures, GeneratedProbes):
        probes = kind(siren, specs[0], coordinate_grid((4, 4)), probes=3)
        with pytest.raises(
            SpecError, match=r"Siren does not run on the inputs of these probes, of shape \(2,\)"
        ):
            probes.for_module(other, specs[1])


def test_encoders_of_one_architecture_are_refused() -> None:
    with pytest.raises(TypeError, match="parameters of FlatMLP depend on the specification"):
        MixedEncoder(FlatMLP(MLP))
    grid = coordinate_grid((4, 4))
    module = Siren(2, (5, 4), 1)
    spec = wsl.trace(module, grid)
    probes = ProbeFeatures(module, spec, grid, probes=3)
    with pytest.raises(ValueError, match="has probes, which run"):
        MixedEncoder(GraphMetanetwork(spec, channels=4, layers=1, probes=probes))
