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

HEADS = WeightSpec.parse(
    """
    axes  h: 2 hidden  d: 3 hidden linear  x: 2 input  y: 2 output
    v    (h d[h]) x
    out  y (h d[h])
    scaling: d linear v+1 out-1
    """
)
LOOP = WeightSpec.parse(
    """
    axes  h: 3 hidden linear  x: 2 input
    into  h x
    loop  h h
    from  x h
    scaling: h linear into+1 loop@0+1 loop@1-1 from-1
    """
)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _draw(spec: WeightSpec, batch: int, generator: torch.Generator) -> Action:
    """Everything: permutations, factors, and matrices in every second draw."""
    linear = bool(torch.randint(2, (), generator=generator))
    return sample(spec, batch, scale=True, linear=linear, generator=generator, dtype=torch.float64)


def _assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-12)


def _indices(shape):
    return torch.meshgrid(*map(torch.arange, shape), indexing="ij") if len(shape) else ()


def _apply_by_definition(spec: WeightSpec, action: Action, weights):
    """The definition: one network and one block at a time, every entry with its own old index and factor."""
    blocks = {key: block.clone() for key, block in spec.split(weights).items()}
    for key, _, block in spec.blocks:
        new = _indices(block.view)

        def at(axis, dim, new=new, block=block):
            """Indices of the family's members, and of the dimension."""
            return (*(new[block.axes.index(member)] for member in spec.axes[axis].family), new[dim])

        for b in range(len(blocks[key])):
            old = [
                action.permutations[axis][b][at(axis, dim)] if axis in action.permutations else new[dim]
                for dim, axis in enumerate(block.axes)
            ]
            moved = blocks[key][b][tuple(old)] if old else blocks[key][b]
            for index, scale in action.scales.items():
                scaling = spec.scalings[index]
                for named, power, stated in scaling.exponents:
                    if named == key:
                        dim = block.axes.index(scaling.axis) if stated is None else stated
                        moved = _scaled(moved, dim, scale[b], at(scaling.axis, dim), power)
            blocks[key][b] = moved
    return spec.join(blocks)


def _scaled(block, dim, scale, at, power):
    if scale.dim() == len(at):
        return block * scale[at] ** power
    matrix = scale if power == 1 else scale.inverse().mT
    rows = matrix[at]
    return sum(
        rows[..., j] * block.select(dim, j).unsqueeze(dim) for j in range(block.shape[dim])
    )  # new[..., i, ...] = sum_j matrix[..., i, j] * old[..., j, ...]


@settings(max_examples=200)
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


@settings(max_examples=100)
@given(random_specs(), st.integers(0, 2**31))
def test_apply_is_its_definition(spec, seed):
    generator = _generator(seed)
    weights = random_weights(spec, 3, generator)
    action = _draw(spec, 3, generator)
    _assert_same(apply(spec, action, weights), _apply_by_definition(spec, action, weights))


@settings(max_examples=30)
@given(random_specs(), st.integers(0, 2**31))
def test_features_move_like_weights(spec, seed):
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


@settings(max_examples=60)
@given(random_specs(), st.integers(0, 2**31))
def test_nodes_move_like_the_axes_of_their_node_set(spec, seed):
    generator = _generator(seed)
    action = _draw(spec, 2, generator)
    shapes = {
        node_set.name: [spec.axes[axis].size for axis in node_set.axes] for node_set in spec.topology.nodes
    }
    nodes = {name: torch.randn(2, math.prod(shape), 5, generator=generator) for name, shape in shapes.items()}
    found = apply_to_nodes(spec, action, nodes)
    assert found.keys() == nodes.keys()
    for name, axes in ((node_set.name, node_set.axes) for node_set in spec.topology.nodes):
        new = _indices(shapes[name])
        for b in range(2):
            old = [
                action.permutations[axis][b][
                    (*(new[axes.index(member)] for member in spec.axes[axis].family), new[dim])
                ]
                if axis in action.permutations
                else new[dim]
                for dim, axis in enumerate(axes)
            ]
            expected = nodes[name][b].view(*shapes[name], 5)[tuple(old)]
            assert torch.equal(found[name][b], expected.reshape(-1, 5))


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


def test_members_of_a_family_move_apart():
    weights = random_weights(HEADS, 1, _generator())
    heads, inner = torch.tensor([[1, 0]]), torch.tensor([[[2, 0, 1], [0, 1, 2]]])
    moved = apply(HEADS, Action({"h": heads, "d": inner}), weights)["v"][0].view(2, 3, 2)
    old = weights["v"][0].view(2, 3, 2)
    assert torch.equal(moved[0], old[1][[2, 0, 1]]), "permutations are listed by new indices of the family"
    assert torch.equal(moved[1], old[0])
    assert torch.equal(apply(HEADS, Action({"d": inner}), weights)["v"][0].view(2, 3, 2)[1], old[1])


@pytest.mark.parametrize("spec", [HEADS, LOOP])
@pytest.mark.parametrize("linear", [True, False])
def test_linear_scalings_keep_what_is_composed(spec, linear):
    weights = random_weights(spec, 4, _generator())
    moved = apply(spec, sample(spec, 4, scale=True, linear=linear, dtype=torch.float64), weights)

    def composed(w):
        return w["out"] @ w["v"] if spec is HEADS else w["from"] @ w["loop"] @ w["into"]

    torch.testing.assert_close(composed(moved), composed(weights))
    first = "v" if spec is HEADS else "into"
    assert not torch.allclose(moved[first].sort(1).values, weights[first].sort(1).values)


def test_matrices_along_what_a_moving_family_is_over_are_refused():
    spec = WeightSpec.parse(
        """
        axes  a: 2 hidden linear  r: 3 hidden  x: 2 input
        left   a x
        right  a r[a]
        scaling: a linear left+1 right-1
        """
    )
    mixing, factors = (
        sample(spec, 2, scale=True, linear=linear, dtype=torch.float64) for linear in (True, False)
    )
    rows = sample(spec, 2, dtype=torch.float64)
    for wrong in (lambda: inverse(spec, mixing), lambda: compose(spec, rows, mixing)):
        with pytest.raises(
            SpecError, match="a matrix acts along axis a, and r, a family over a, is moved too"
        ):
            wrong()
    weights = random_weights(spec, 2)
    _assert_same(
        apply(spec, compose(spec, Action({}, mixing.scales), rows), weights),
        apply(spec, Action({}, mixing.scales), apply(spec, rows, weights)),
    )
    _assert_same(apply(spec, inverse(spec, factors), apply(spec, factors, weights)), weights)


def test_mixed_weights_are_contiguous():
    """Modules view their weights in other shapes."""
    text = (
        "axes h: 2 hidden  d: 3 hidden linear  x: 2 input\na x h d[h]\nb h d[h] x\nscaling: d linear a+1 b-1"
    )
    spec = WeightSpec.parse(text)
    moved = apply(spec, sample(spec, 2, linear=True, dtype=torch.float64), random_weights(spec, 2))
    assert all(tensor.is_contiguous() for tensor in moved.values())


def test_matrices_are_well_conditioned_and_differ():
    matrices = sample(HEADS, 300, linear=True, bound=3.0, generator=_generator()).scales[0]
    assert matrices.shape == (300, 2, 3, 3)
    values = torch.linalg.svdvals(matrices)
    assert 1 / 3 - 1e-5 <= values.min() < 0.4 < 2.5 < values.max() <= 3 + 1e-5
    assert not torch.allclose(matrices[:, 0], matrices[:, 1])
    diagonal = sample(HEADS, 300, scale=True, generator=_generator()).scales[0]
    assert diagonal.shape == (300, 2, 3)
    assert 0.4 < (diagonal < 0).double().mean() < 0.6
    assert sample(MLP, 2, linear=True).scales == {}


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


@pytest.mark.parametrize("spec", [MLP, HEADS, LOOP])
def test_gradients_reach_weights_and_scales(spec):
    weights = {
        name: tensor.requires_grad_() for name, tensor in random_weights(spec, 2, _generator()).items()
    }
    drawn = sample(spec, 2, scale=True, linear=True, generator=_generator(1), dtype=torch.float64)
    scales = [scale.requires_grad_() for scale in drawn.scales.values()]

    def moved(*tensors):
        action = Action(drawn.permutations, dict(enumerate(tensors[: len(scales)])))
        return tuple(apply(spec, action, dict(zip(weights, tensors[len(scales) :], strict=True))).values())

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


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (Action({"d": torch.zeros(2, 3).long()}), r"axis d has shape \(2, 3\); expected \(2, 2, 3\)"),
        (Action({"h": torch.zeros(2, 2, 2).long()}), r"axis h has shape \(2, 2, 2\); expected \(2, 2\)"),
        (
            Action({}, {0: torch.ones(2, 3)}),
            r"scale of axis d has shape \(2, 3\); expected \(2, 2, 3\): .* axis after its family",
        ),
        (
            Action({}, {0: torch.ones(2, 2, 3, 2)}),
            r"has shape \(2, 2, 3, 2\); expected \(2, 2, 3, 3\)",
        ),
    ],
)
def test_actions_without_the_family_are_refused(action, message):
    with pytest.raises(SpecError, match=message):
        apply(HEADS, action, random_weights(HEADS, 2))


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
    with pytest.raises(SpecError, match="h9 is no node set of the spec; node sets: h1, h2, x, y"):
        apply_to_nodes(MLP, action, {"h9": torch.zeros(2, 3, 1)})
    with pytest.raises(SpecError, match=r"nodes h1 have shape \(2, 4, 1\); expected \(B, 3, C\)"):
        apply_to_nodes(MLP, action, {"h1": torch.zeros(2, 4, 1)})
    with pytest.raises(ValueError, match="bound is 0.5"):
        sample(MLP, 2, scale=True, bound=0.5)
