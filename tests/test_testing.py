"""The public assertions can fail, and the random specifications hold what they promise."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from described_families import FAMILIES
from described_modules import MODULES as PLAIN
from hypothesis import given, settings
from torch import nn

from wsl.spec import SpecError, WeightSpec
from wsl.testing import (
    assert_equivariant,
    assert_invariant,
    assert_preserves_function,
    mutations,
    random_specs,
    random_weights,
)
from wsl.testing._random_specs import KINDS

MODULES = {**PLAIN, **FAMILIES}
MLP = MODULES["mlp"].spec


def _axis_sums(spec, weights):
    """An equivariant map to features: weights and their sums; nodes sum their weights."""
    blocks = spec.split(weights)
    tensors = {
        key: torch.stack(
            [block, block.reshape(len(block), -1).sum(1).view(-1, *[1] * (block.dim() - 1)).expand_as(block)],
            -1,
        )
        for key, block in blocks.items()
    }
    nodes = {}
    for node_set in spec.topology.nodes:
        found = torch.zeros(len(next(iter(blocks.values()))), *(spec.axes[a].size for a in node_set.axes))
        for ref in spec.blocks:
            axes = ref.block.axes
            if all(axes.count(axis) == 1 == node_set.axes.count(axis) for axis in node_set.axes):
                dims = [axes.index(axis) + 1 for axis in node_set.axes]
                others = [d + 1 for d in range(len(axes)) if d + 1 not in dims]
                cubes = blocks[ref.key].pow(3).permute(0, *dims, *others)
                found = found + cubes.flatten(1 + len(dims)).sum(-1) if others else found + cubes
        nodes[node_set.name] = found.flatten(1).unsqueeze(-1)
    return SimpleNamespace(tensors=tensors, nodes=nodes)


@settings(max_examples=50)
@given(random_specs())
def test_equivariant_and_invariant_maps_pass(spec):
    assert_equivariant(
        lambda weights: {name: tensor.sin() for name, tensor in weights.items()}, spec, trials=1
    )
    assert_equivariant(lambda weights: _axis_sums(spec, weights), spec, trials=1)
    assert_invariant(
        lambda weights: [t.reshape(len(t), -1).pow(2).sum(1) for t in weights.values()], spec, trials=1
    )


def test_a_dense_layer_fails():
    count, mixing = MLP.parameter_count, torch.randn(MLP.parameter_count, MLP.parameter_count).double()

    def dense(weights):
        flat = torch.cat([tensor.flatten(1) for tensor in weights.values()], 1) @ mixing
        parts = flat.split([tensor[0].numel() for tensor in weights.values()], 1)
        return {name: part.reshape(weights[name].shape) for name, part in zip(weights, parts, strict=True)}

    assert count == mixing.shape[0]
    with pytest.raises(AssertionError, match=r"output\['0.weight'\] is not equivariant: differs by"):
        assert_equivariant(dense, MLP)
    with pytest.raises(AssertionError, match=r"output is not invariant: differs by"):
        assert_invariant(lambda weights: dense(weights)["4.bias"], MLP)


@pytest.mark.parametrize("part", ["tensors", "nodes"])
def test_wrong_features_fail(part):
    def wrong(weights):
        features = _axis_sums(MLP, weights)
        key = "2.weight" if part == "tensors" else "h2"
        values = getattr(features, part)
        values[key] = values[key].cumsum(1)
        return features

    with pytest.raises(AssertionError, match=rf"output\['{part}'\]\['(2.weight|h2)'\] is not equivariant"):
        assert_equivariant(wrong, MLP)


def test_scalings_are_drawn_on_request():
    def largest(weights):
        return weights["0.weight"].abs().sum((1, 2))

    assert_invariant(largest, MLP)
    with pytest.raises(AssertionError, match="not invariant"):
        assert_invariant(largest, MLP, scale=True)
    assert_equivariant(lambda weights: {n: 2 * t for n, t in weights.items()}, MLP, scale=True)
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(lambda weights: {n: t.square() for n, t in weights.items()}, MLP, scale=True)


def test_empty_and_infinite_outputs_fail():
    with pytest.raises(AssertionError, match="no tensors"):
        assert_invariant(lambda weights: None, MLP)
    with pytest.raises(AssertionError, match="no tensors"):
        assert_preserves_function(nn.Identity(), WeightSpec((), {}), ({},))
    with pytest.raises(AssertionError, match="not finite"):
        assert_invariant(lambda weights: weights["4.bias"].sum() / 0, MLP)
    with pytest.raises(TypeError, match="expected weights .* got Tensor"):
        assert_equivariant(lambda weights: weights["4.bias"], MLP)


@pytest.mark.parametrize("name", MODULES)
def test_function_is_preserved_and_mutations_are_seen(name):
    build, inputs, spec = MODULES[name]
    module = build()
    assert_preserves_function(module, spec, inputs)
    what, wrong = next(mutations(spec))
    with pytest.raises(AssertionError, match="under the group of"):
        assert_preserves_function(module, wrong, inputs)
        pytest.fail(f"passed although {what}")


def test_mutations_claim_families_and_activations_but_nothing_coarser():
    said = [what for name in FAMILIES for what, _ in mutations(FAMILIES[name].spec)]
    assert {"d as a family over a, h1", "d as a family over h1"} <= set(said)
    claimed = "sign scaling of h1 claimed through relu"
    assert claimed in [what for what, _ in mutations(FAMILIES["norm_behind"].spec)]
    single = WeightSpec.parse("axes h: 3 hidden  x: 1 input\na h x\nb h x")
    assert not any("family" in what for what, _ in mutations(single))
    for spec in (described.spec for described in MODULES.values()):
        for what, wrong in mutations(spec):
            assert WeightSpec.parse(str(wrong)) == wrong
            if (wrong.tensors, wrong.scalings) == (spec.tensors, spec.scalings):
                finer = [a for a in wrong.axes.values() if set(a.family) - set(spec.axes[a.name].family)]
                moved = len(wrong.hidden_axes) - len(spec.hidden_axes)
                assert finer or moved == 1, f"{what}: that is coarser, but true"


def test_fresh_modules_are_randomised_first():
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2, bias=False))
    nn.init.zeros_(module[2].weight)
    wrong = WeightSpec.parse("axes h1: 4 hidden\n0.weight h1 _ _=3\n0.bias h1\n2.weight _ _ _=2x4")
    with pytest.raises(AssertionError, match="output changes by"):
        assert_preserves_function(module, wrong, torch.ones(2, 3))
    with pytest.raises(SpecError, match="missing 9.weight"):
        assert_preserves_function(
            module, WeightSpec.parse("axes h1: 4 hidden\n9.weight h1"), torch.ones(2, 3)
        )


def _drawn(strategy, count):
    drawn = []

    @settings(max_examples=count)
    @given(strategy)
    def collect(spec):
        drawn.append(spec)

    collect()
    return drawn


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_and_sizes_can_be_chosen(kind):
    for spec in _drawn(random_specs([kind], max_size=2), 10):
        assert isinstance(spec, WeightSpec)
        assert all(axis.size <= 2 for axis in spec.axes.values())


def test_random_specs_hold_every_kind():
    drawn = _drawn(random_specs(), 400)
    kinds = {
        "two scaled layers": lambda s: len(s.scalings) == 2 and len(s.tensors) <= 6,
        "both kinds of scaling": lambda s: {scaling.kind for scaling in s.scalings} == {"positive", "sign"},
        "nothing hidden": lambda s: not s.hidden_axes,
        "one neuron": lambda s: any(axis.size == 1 for axis in s.hidden_axes),
        "3d kernel": lambda s: any(len(ref.block.view) == 5 for ref in s.blocks),
        "sums in two dimensions": lambda s: any(ref.key.endswith("[3]") for ref in s.blocks),
        "an axis twice": lambda s: any(ref.block.axes == ("h1", "h1") for ref in s.blocks),
        "three axes": lambda s: any(len(ref.block.neuron_dims) == 3 for ref in s.blocks),
        "a scalar": lambda s: any(tensor.shape == () for tensor in s.tensors.values()),
        "statistics": lambda s: any(name.endswith("running_var") for name in s.tensors),
        "heads with inner axes": lambda s: any(axis.family == ("a1",) for axis in s.axes.values()),
        "grouped queries": lambda s: {axis.name: axis.family for axis in s.hidden_axes}.get("a1") == ("b1",),
        "nested families": lambda s: any(axis.family == ("b1", "a1") for axis in s.axes.values()),
        "a family over a fixed axis": lambda s: any("f1" in axis.family for axis in s.axes.values()),
        "a linear scaling": lambda s: any(scaling.kind == "linear" for scaling in s.scalings),
        "a linear scaling of a family": lambda s: any(
            scaling.kind == "linear" and s.axes[scaling.axis].family for scaling in s.scalings
        ),
        "a scaling along one of two dimensions": lambda s: any(
            exponent.dim is not None for scaling in s.scalings for exponent in scaling.exponents
        ),
        "identity edges": lambda s: any(edge.block is None for edge in s.edges),
        "a fixed axis": lambda s: s.notes and any(axis.kind == "fixed" for axis in s.axes.values()),
    }
    assert {kind for kind, holds in kinds.items() if not any(map(holds, drawn))} == set()


def test_random_weights():
    weights = random_weights(MODULES["cnn"].spec, 200, torch.Generator().manual_seed(0), torch.float32)
    assert MODULES["cnn"].spec.check_weights(weights) == 200
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert 0.5 <= weights["bn.running_var"].min() < 0.6 < 1.4 < weights["bn.running_var"].max() <= 1.5
    assert abs(weights["fc.weight"].std() - 1) < 0.02


def test_only_random_specs_need_hypothesis():
    code = "import sys, wsl.testing; sys.exit('hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
