"""The symmetry group: group laws on every kind of specification, and the convention on small examples."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wsl.spec import SpecError, WeightSpec
from wsl.symmetry import (
    Action,
    apply,
    apply_to_features,
    apply_to_nodes,
    compose,
    identity,
    inverse,
    sample,
)
from wsl.testing import random_specs, random_weights

MLP = WeightSpec.parse(
    """
    axes  h1: 3 hidden relu positive  h2: 4 hidden tanh sign  x: 2 input  y: 2 output
    a.weight  h1 x
    a.bias    h1
    b.weight  h2 h1
    c.weight  y h2
    scaling: h1 positive a.weight+1 a.bias+1 b.weight-1
    scaling: h2 sign b.weight+1 c.weight-1
    """
)
GATES = WeightSpec.parse(
    """
    axes  h: 3 hidden  g: 2 hidden  x: 2 input
    hh    (h + h) h
    flat  x (g 2 h)
    both  (h + x) (g + h 2)
    """
)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _draw(spec: WeightSpec, batch: int, generator: torch.Generator) -> Action:
    return sample(spec, batch, scale=True, generator=generator, dtype=torch.float64)


def _assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-12)


def _apply_in_loops(spec: WeightSpec, action: Action, weights):
    """The definition, one network, one block and one axis at a time."""
    blocks = {key: block.clone() for key, block in spec.split(weights).items()}
    for key, _, block in spec.blocks:
        for b in range(len(blocks[key])):
            moved = blocks[key][b]
            for dim, axis in enumerate(block.axes):
                if axis in action.permutations:
                    order = action.permutations[axis][b].tolist()
                    moved = torch.stack([moved.select(dim, old) for old in order], dim)
            for index, scale in action.scales.items():
                axis, power = spec.scalings[index].axis, dict(spec.scalings[index].exponents).get(key, 0)
                if power:
                    dim = block.axes.index(axis)
                    parts = [moved.select(dim, i) * s**power for i, s in enumerate(scale[b].tolist())]
                    moved = torch.stack(parts, dim)
            blocks[key][b] = moved
    return spec.join(blocks)


@settings(max_examples=100)
@given(random_specs(), st.integers(0, 2**31), st.integers(1, 3))
def test_group_laws(spec, seed, batch):
    generator = _generator(seed)
    weights = random_weights(spec, batch, generator)
    g, h, k = (_draw(spec, batch, generator) for _ in range(3))
    moved = apply(spec, g, weights)
    _assert_same(apply(spec, compose(spec, g, h), weights), apply(spec, g, apply(spec, h, weights)))
    _assert_same(apply(spec, inverse(spec, g), moved), weights)
    _assert_same(apply(spec, compose(spec, g, inverse(spec, g)), weights), weights)
    _assert_same(apply(spec, identity(spec, batch, dtype=torch.float64), weights), weights)
    left, right = compose(spec, compose(spec, g, h), k), compose(spec, g, compose(spec, h, k))
    _assert_same(left.permutations, right.permutations)
    _assert_same(left.scales, right.scales)


@settings(max_examples=50)
@given(random_specs(), st.integers(0, 2**31))
def test_apply_is_its_definition(spec, seed):
    generator = _generator(seed)
    weights = random_weights(spec, 3, generator)
    action = _draw(spec, 3, generator)
    _assert_same(apply(spec, action, weights), _apply_in_loops(spec, action, weights))


@settings(max_examples=30)
@given(random_specs(), st.integers(0, 2**31))
def test_features_move_like_weights_and_nodes_like_axes(spec, seed):
    generator = _generator(seed)
    weights = random_weights(spec, 2, generator)
    action = _draw(spec, 2, generator)
    channels = torch.stack([torch.ones(2), torch.tensor([2.0, -3.0])], 1).double()
    blocks = spec.split(weights)
    features = {
        key: block.unsqueeze(-1) * channels.view(2, *[1] * (block.dim() - 1), 2)
        for key, block in blocks.items()
    }
    moved = apply_to_features(spec, action, features)
    for key, block in spec.split(apply(spec, action, weights)).items():
        torch.testing.assert_close(
            moved[key], block.unsqueeze(-1) * channels.view(2, *[1] * (block.dim() - 1), 2)
        )
    nodes = {name: torch.randn(2, axis.size, 5, generator=generator) for name, axis in spec.axes.items()}
    for name, found in apply_to_nodes(spec, action, nodes).items():
        for b in range(2):
            order = action.permutations[name][b] if name in action.permutations else slice(None)
            assert torch.equal(found[b], nodes[name][b][order])


def test_the_convention():
    weights = random_weights(MLP, 1, _generator())
    action = Action({"h1": torch.tensor([[2, 0, 1]])}, {0: torch.tensor([[2.0, 1.0, 4.0]]).double()})
    moved = apply(MLP, action, weights)
    bias = weights["a.bias"][0]
    torch.testing.assert_close(moved["a.bias"][0], torch.stack([2 * bias[2], bias[0], 4 * bias[1]]))
    torch.testing.assert_close(moved["b.weight"][0, :, 0], weights["b.weight"][0, :, 2] / 2)
    assert torch.equal(moved["c.weight"], weights["c.weight"])


def test_axes_that_occur_twice_move_twice_and_sums_move_by_parts():
    weights = random_weights(GATES, 2, _generator())
    order = torch.tensor([[1, 2, 0], [2, 1, 0]])
    moved = apply(GATES, Action({"h": order}), weights)
    for b, p in enumerate(order):
        both = torch.cat([p, p + 3])
        assert torch.equal(moved["hh"][b], weights["hh"][b][both][:, p])
        assert torch.equal(moved["flat"][b].view(2, 2, 2, 3), weights["flat"][b].view(2, 2, 2, 3)[..., p])
        rows = torch.cat([p, torch.tensor([3, 4])])
        columns = torch.cat([torch.tensor([0, 1]), (2 + 2 * p[:, None] + torch.arange(2)).flatten()])
        assert torch.equal(moved["both"][b], weights["both"][b][rows][:, columns])


def test_every_network_moves_by_its_own_element():
    weights = random_weights(MLP, 5, _generator())
    action = _draw(MLP, 5, _generator(1))
    moved = apply(MLP, action, weights)
    for b in range(5):
        alone = Action(
            {axis: perm[b : b + 1] for axis, perm in action.permutations.items()},
            {index: scale[b : b + 1] for index, scale in action.scales.items()},
        )
        one = apply(MLP, alone, {name: tensor[b : b + 1] for name, tensor in weights.items()})
        _assert_same({name: tensor[b : b + 1] for name, tensor in moved.items()}, one)


def test_gradients_reach_weights_and_scales():
    weights = {name: tensor.requires_grad_() for name, tensor in random_weights(MLP, 2, _generator()).items()}
    drawn = _draw(MLP, 2, _generator(1))
    scales = [scale.requires_grad_() for scale in drawn.scales.values()]

    def moved(*tensors):
        action = Action(drawn.permutations, dict(enumerate(tensors[:2])))
        return tuple(apply(MLP, action, dict(zip(weights, tensors[2:], strict=True))).values())

    assert torch.autograd.gradcheck(moved, (*scales, *weights.values()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_dtypes_stay(dtype):
    weights = random_weights(MLP, 2, _generator(), dtype)
    moved = apply(MLP, sample(MLP, 2, scale=True, generator=_generator()), weights)
    assert {tensor.dtype for tensor in moved.values()} == {dtype}


def test_devices_stay():
    on_meta = {name: tensor.to("meta") for name, tensor in random_weights(MLP, 2).items()}
    moved = apply(MLP, sample(MLP, 2, scale=True, device="meta"), on_meta)
    assert {tensor.device.type for tensor in moved.values()} == {"meta"}


def test_integers_are_permuted_and_an_empty_batch_is_fine():
    weights = {name: tensor.mul(9).long() for name, tensor in random_weights(MLP, 2, _generator()).items()}
    action = sample(MLP, 2, generator=_generator())
    assert torch.equal(
        apply(MLP, action, weights)["a.bias"][0], weights["a.bias"][0][action.permutations["h1"][0]]
    )
    empty = apply(MLP, sample(MLP, 0, scale=True), random_weights(MLP, 0))
    assert empty["b.weight"].shape == (0, 4, 3)


def test_draws_are_uniform_and_scales_have_their_range():
    action = sample(MLP, 6000, scale=True, generator=_generator(), dtype=torch.float64)
    codes = (action.permutations["h1"] * torch.tensor([9, 3, 1])).sum(1)
    counts = torch.unique(codes, return_counts=True)[1]
    assert len(counts) == 6
    assert ((counts - 1000).abs() < 150).all()
    positive, signs = action.scales[0], action.scales[1]
    logarithms = positive.log() / math.log(4)
    assert logarithms.abs().max() <= 1 + 1e-9
    assert logarithms.abs().max() > 0.99
    assert abs(logarithms.mean()) < 0.02
    assert abs((logarithms**2).mean() - 1 / 3) < 0.02
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert abs(signs.mean()) < 0.03
    assert sample(MLP, 9, scale=True, bound=1.0).scales[0].eq(1).all()


def test_parts_of_the_group_can_be_left_out():
    assert sample(MLP, 2).scales == {}
    assert sample(MLP, 2, permute=False, scale=True).permutations == {}
    assert list(sample(MLP, 2).permutations) == ["h1", "h2"]
    weights = random_weights(MLP, 2)
    _assert_same(apply(MLP, Action(), weights), weights)
    scale_only, permute_only = sample(MLP, 2, permute=False, scale=True, dtype=torch.float64), sample(MLP, 2)
    both = compose(MLP, scale_only, permute_only)
    _assert_same(apply(MLP, both, weights), apply(MLP, scale_only, apply(MLP, permute_only, weights)))
    both = compose(MLP, permute_only, scale_only)
    _assert_same(apply(MLP, both, weights), apply(MLP, permute_only, apply(MLP, scale_only, weights)))


def test_randomness_comes_from_the_generator():
    first, again, other = (sample(MLP, 4, scale=True, generator=_generator(s)) for s in (1, 1, 2))
    _assert_same(first.permutations, again.permutations)
    _assert_same(first.scales, again.scales)
    assert not torch.equal(first.scales[0], other.scales[0])


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            Action({"x": torch.zeros(2, 2).long()}),
            "permutes x, which is no hidden axis of the spec; .*: h1, h2",
        ),
        (Action({"z": torch.zeros(2, 2).long()}), "permutes z, which is no hidden axis"),
        (
            Action({"h1": torch.zeros(2, 4).long()}),
            r"permutation of axis h1 has shape \(2, 4\); expected \(2, 3\)",
        ),
        (
            Action({"h1": torch.zeros(1, 3).long()}),
            r"has shape \(1, 3\); expected \(2, 3\): networks, neurons",
        ),
        (Action({}, {5: torch.ones(2, 3)}), "scales for scaling 5, but the spec has 2 scalings"),
        (Action({}, {1: torch.ones(2, 3)}), r"scale of axis h2 has shape \(2, 3\); expected \(2, 4\)"),
    ],
)
def test_actions_of_other_specifications_are_refused(action, message):
    with pytest.raises(SpecError, match=message):
        apply(MLP, action, random_weights(MLP, 2))


def test_weights_features_and_bounds_that_do_not_fit_are_refused():
    action = sample(MLP, 2)
    with pytest.raises(SpecError, match=r"missing c.weight"):
        apply(MLP, action, {k: v for k, v in random_weights(MLP, 2).items() if k != "c.weight"})
    features = {key: block.unsqueeze(-1) for key, block in MLP.split(random_weights(MLP, 2)).items()}
    with pytest.raises(
        SpecError, match=r"features of b.weight have shape \(2, 4, 3\); expected \(B, 4, 3, C\)"
    ):
        apply_to_features(MLP, action, {**features, "b.weight": torch.zeros(2, 4, 3)})
    with pytest.raises(SpecError, match="the features hold blocks a.weight; expected a.weight, a.bias"):
        apply_to_features(MLP, action, {"a.weight": features["a.weight"]})
    with pytest.raises(SpecError, match="permutation of axis h1"):
        apply_to_nodes(MLP, action, {"h1": torch.zeros(3, 3, 1)})
    with pytest.raises(ValueError, match="bound is 0.5"):
        sample(MLP, 2, scale=True, bound=0.5)
