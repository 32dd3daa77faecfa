"""Weight matching brings moved copies back, and never makes networks less alike."""

import itertools

import pytest
import torch
from described_families import FAMILIES
from hypothesis import given, settings
from hypothesis import strategies as st

from wsl import symmetry
from wsl.align import similarity, weight_matching
from wsl.models import Siren
from wsl.spec import SpecError, WeightSpec
from wsl.testing import random_specs, random_weights

SIREN = WeightSpec.parse(
    """
    axes   h1: 16 hidden sin sign   h2: 12 hidden sin sign   x: 2 input   y: 1 output
    layers.0.weight  h1 x
    layers.0.bias    h1
    layers.1.weight  h2 h1
    layers.1.bias    h2
    layers.2.weight  y h2
    layers.2.bias    y
    scaling:  h1 sign layers.0.weight+1 layers.0.bias+1 layers.1.weight+1
    scaling:  h2 sign layers.1.weight+1 layers.1.bias+1 layers.2.weight+1
    """
)


def sirens(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    drawn = [Siren(2, (16, 12), 1, generator=generator).double().state_dict() for _ in range(count)]
    return {name: torch.stack([network[name] for network in drawn]) for name in drawn[0]}


def flips(spec, action):
    """The action without what no matching undoes: positive factors."""
    kept = {i: s for i, s in action.scales.items() if spec.scalings[i].kind != "positive"}
    return symmetry.Action(action.permutations, {i: s.sign() for i, s in kept.items()})


def brought_back(spec, weights, seed):
    generator = torch.Generator().manual_seed(seed)
    count = len(next(iter(weights.values())))
    action = symmetry.sample(spec, count, scale=True, generator=generator, dtype=torch.float64)
    moved = symmetry.apply(spec, flips(spec, action), weights)
    return symmetry.apply(spec, weight_matching(spec, weights, moved), moved), moved


@pytest.mark.parametrize("seed", range(3))
def test_moved_sirens_are_brought_back_exactly(seed):
    weights = sirens(4, seed)
    back, moved = brought_back(SIREN, weights, seed)
    assert all(torch.equal(back[name], weights[name]) for name in weights)
    assert not torch.equal(moved["layers.1.bias"], weights["layers.1.bias"])


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {"low_rank"}))
def test_families_norms_and_recurrent_weights_are_brought_back_exactly(name):
    spec = FAMILIES[name].spec
    weights = random_weights(spec, 3, torch.Generator().manual_seed(1))
    back, _ = brought_back(spec, weights, 2)
    assert similarity(spec, back, back).allclose(similarity(spec, weights, back))
    assert all(torch.equal(back[key], weights[key]) for key in weights)


def test_the_permutation_itself_is_found():
    weights = sirens(3)
    generator = torch.Generator().manual_seed(0)
    action = symmetry.sample(SIREN, 3, generator=generator)
    found = weight_matching(SIREN, weights, symmetry.apply(SIREN, action, weights))
    undone = symmetry.inverse(SIREN, action)
    for axis, permutation in undone.permutations.items():
        assert torch.equal(found.permutations[axis], permutation)


@settings(max_examples=25)
@given(random_specs(max_size=4), st.integers(0, 100))
def test_networks_never_become_less_alike(spec, seed):
    generator = torch.Generator().manual_seed(seed)
    a, b = (random_weights(spec, 2, generator) for _ in range(2))
    action = weight_matching(spec, a, b)
    before, after = similarity(spec, a, b), similarity(spec, a, symmetry.apply(spec, action, b))
    assert (after >= before - 1e-9).all()


def test_one_hidden_axis_is_matched_best():
    spec = WeightSpec.parse("axes  h: 4 hidden  x: 2 input  y: 3 output\nin  h x\nout  y h")
    generator = torch.Generator().manual_seed(0)
    a, b = (random_weights(spec, 5, generator) for _ in range(2))
    found = similarity(spec, a, symmetry.apply(spec, weight_matching(spec, a, b), b))
    orders = torch.tensor(list(itertools.permutations(range(4))))
    for n in range(5):
        one, other = ({key: w[n].expand(len(orders), *w[n].shape) for key, w in ws.items()} for ws in (a, b))
        every = similarity(spec, one, symmetry.apply(spec, symmetry.Action({"h": orders}), other))
        assert found[n].item() == pytest.approx(every.max().item(), abs=1e-9)
        assert (every < found[n] - 1e-6).any()


def test_a_batch_is_matched_as_its_networks_alone():
    a, b = sirens(3, 0), sirens(3, 1)
    whole = symmetry.apply(SIREN, weight_matching(SIREN, a, b), b)
    for n in range(3):
        one, other = ({key: w[n : n + 1] for key, w in ws.items()} for ws in (a, b))
        alone = symmetry.apply(SIREN, weight_matching(SIREN, one, other), other)
        assert all(torch.equal(alone[key], whole[key][n : n + 1]) for key in whole)


def test_running_statistics_move_and_do_not_count():
    spec = FAMILIES["norm_behind"].spec
    a = random_weights(spec, 2, torch.Generator().manual_seed(0))
    b = random_weights(spec, 2, torch.Generator().manual_seed(1))
    found = weight_matching(spec, a, b)
    other = {**b, "2.running_var": b["2.running_var"].flip(1) * 100}
    assert torch.equal(weight_matching(spec, a, other).permutations["h1"], found.permutations["h1"])
    assert torch.equal(similarity(spec, a, b), similarity(spec, a, other))


def test_matching_needs_pairs_of_one_architecture():
    with pytest.raises(SpecError, match="4 networks and weights_b 3"):
        weight_matching(SIREN, sirens(4), sirens(3))
    with pytest.raises(SpecError, match="missing"):
        weight_matching(SIREN, sirens(2), {"a": torch.ones(2, 1)})
    diverged = sirens(4)
    diverged["layers.1.bias"][2, 3] = torch.nan
    with pytest.raises(
        ValueError, match=r"weights_b holds values that are not finite, in networks \[2\] of 4"
    ):
        weight_matching(SIREN, sirens(4), diverged)
