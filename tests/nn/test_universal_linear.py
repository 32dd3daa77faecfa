"""The universal linear layer: counts of the paper, and all equivariant maps by brute force."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn

from wsl.nn import Signature, UniversalLayout, UniversalLinear
from wsl.spec import SpecError, WeightSpec
from wsl.symmetry import Action, apply, apply_to_nodes
from wsl.testing import random_specs

ALL = 10**6

MLP = [Signature(axes) for axes in (("h1", "x"), ("h1",), ("h2", "h1"), ("h2",), ("y", "h2"), ("y",))]
OPTIMIZED = [Signature(axes) for axes in (("h", "x"), ("h",), ("y", "h"), ("y",))]

SPECS = {
    "mlp": """
        axes   h1: 2 hidden   h2: 2 hidden   x: 2 input   y: 1 output
        fc1.weight   h1 x
        fc1.bias     h1
        fc2.weight   h2 h1
        fc3.weight   y h2
        fc3.bias     y
    """,
    "recurrent": """
        axes   h: 4 hidden   y: 2 output
        ih.bias       h
        hh.weight     h h
        head.weight   y h
    """,
    "residual": """
        axes   h: 2 hidden   k: 3 hidden   x: 1 input
        stem.weight   h x
        in.weight     k h
        out.weight    h k
        norm.weight   h
    """,
    "heads": """
        axes   h: 2 hidden   d: 2 hidden   e: 2 hidden   c: 2 hidden
        q.weight     (h d[h]) c
        q.bias       (h d[h])
        out.weight   c (h e[h])
        scale        h
    """,
    "grouped": """
        axes   g: 2 hidden   i: 2 hidden   o: 2 hidden
        conv.weight   (g o[g]) i[g] _   _=2
        norm.weight   (g o[g])
    """,
    "nested": """
        axes   a: 2 hidden   b: 2 hidden   d: 2 hidden
        first    a b[a] d[a,b]
        second   a b[a]
    """,
    "squares": """
        axes   h: 2 hidden   d: 4 hidden
        weight   h d[h] d[h]
        bias     h d[h]
    """,
    "product": """
        axes   a: 2 hidden   b: 3 hidden   y: 2 output
        mix     y (a b)
        shift   (b a)
    """,
}


def test_terms_of_a_perceptron() -> None:
    """The count of Zhou et al. 2024 for the weights of a 2-32-32-1 MLP, all axes permuted."""
    layer = UniversalLinear(MLP, MLP, {"x": 2, "h1": 32, "h2": 32, "y": 1}, 1, 1)
    assert layer.term_count == 62


@pytest.mark.parametrize(("repeats", "terms"), [(0, 1), (1, 2), (2, 15), (3, 203)])
def test_terms_of_a_repeated_axis(repeats: int, terms: int) -> None:
    """Bell numbers."""
    tensors = [Signature(("h",) * repeats)]
    assert UniversalLinear(tensors, tensors, {"h": 5}, 1, 1).term_count == terms


def test_parameters_of_the_learned_optimizer() -> None:
    """Zhou et al. 2024: an MLP of every parameter, one layer for a 64-32-10 MLP, and three scalars."""
    each = nn.Sequential(nn.Linear(19, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
    layer = UniversalLinear(OPTIMIZED, OPTIMIZED, {"x": 64, "h": 32, "y": 10}, 32, 1)
    assert layer.term_count == 32
    assert parameters(layer) == 1028
    assert parameters(each) + parameters(layer) + 3 == 3783


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", SPECS)
def test_all_equivariant_maps(name: str) -> None:
    """The maps of the layer span all affine equivariant ones, and no parameter is superfluous."""
    spec = WeightSpec.parse(SPECS[name])
    layer, dimension = weights_layer(spec), dimension_by_brute_force(spec)
    assert rank(layer, spec) == dimension == parameters(layer)


@pytest.mark.parametrize("name", SPECS)
def test_all_equivariant_maps_to_nodes(name: str) -> None:
    spec = WeightSpec.parse(SPECS[name])
    assert rank(nodes_layer(spec), spec) == dimension_by_brute_force(spec, to_nodes=True)


@settings(max_examples=20)
@given(spec=random_specs(max_size=2))
def test_all_equivariant_maps_of_random_specifications(spec: WeightSpec) -> None:
    """Sizes are small, so that maps coincide: there are superfluous parameters, but no map is missing."""
    over = {name for axis in spec.axes.values() for name in axis.family}
    assume(spec.parameter_count <= 40 and all(spec.axes[name].kind == "hidden" for name in over))
    layer = weights_layer(spec)
    assume(parameters(layer) <= 400)
    assert rank(layer, spec) == dimension_by_brute_force(spec)


def test_more_maps_than_those_of_a_larger_group() -> None:
    """Without its family, an inner axis has fewer maps: the oracle would notice."""
    spec = WeightSpec.parse(SPECS["heads"])
    layout = UniversalLayout.of(spec, ALL)
    without = UniversalLinear(layout.inputs, layout.inputs, layout.sizes, 1, 1)
    assert rank(without.double(), spec) > dimension_by_brute_force(spec)


def test_identity() -> None:
    """Adding the identity adds the inputs to the outputs, for repeated axes, families and copies too."""
    for text in SPECS.values():
        layer = weights_layer(WeightSpec.parse(text))
        states = [torch.randn(2, *shape, dtype=torch.float64) for shape in layer.shapes]
        before = layer(states)
        layer.add_identity()
        for state, old, new in zip(states, before, layer(states), strict=True):
            torch.testing.assert_close(new, old + state)


def test_terms_of_a_recurrent_weight_by_hand() -> None:
    """Each of the 15 terms and 2 constants as an expression of its own."""
    x = torch.randn(4, 4, dtype=torch.float64)
    ones, eye = torch.ones(4, dtype=torch.float64), torch.eye(4, dtype=torch.float64)
    expected = [x, x.T, torch.outer(ones, ones), eye]
    for read in (x.diagonal(), x.mean(1), x.mean(0)):
        expected += [torch.diag(read), torch.outer(read, ones), torch.outer(ones, read)]
    for number in (x.trace() / 4, x.mean()):
        expected += [number * eye, number * torch.outer(ones, ones)]
    tensors = [Signature(("h", "h"))]
    layer = UniversalLinear(tensors, tensors, {"h": 4}, 1, 1).double()
    found = []
    for direction in torch.eye(parameters(layer), dtype=torch.float64):
        nn.utils.vector_to_parameters(direction, layer.parameters())
        found.append(layer([x[None, :, :, None]])[0].flatten().tolist())
    wanted = sorted(tensor.flatten().tolist() for tensor in expected)
    np.testing.assert_allclose(np.array(sorted(found)), np.array(wanted), atol=1e-12)


def test_an_axis_too_often() -> None:
    with pytest.raises(SpecError, match=r"carries axis h 5 times: h h h h h"):
        UniversalLinear([Signature(("h",) * 5)], [], {"h": 2}, 1, 1)


def test_autocast() -> None:
    layer = UniversalLinear(MLP, MLP, {"x": 2, "h1": 3, "h2": 3, "y": 1}, 4, 4)
    states = [torch.randn(2, *shape) for shape in layer.shapes]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = layer(states)
    for half, full in zip(outputs, layer(states), strict=True):
        assert (half - full).abs().max() < 0.1


def weights_layer(spec: WeightSpec) -> UniversalLinear:
    """From weights to weights, with one channel."""
    layout = UniversalLayout.of(spec, ALL)
    return UniversalLinear(inputs(spec), inputs(spec), layout.sizes, 1, 1, layout.families).double()


def nodes_layer(spec: WeightSpec) -> UniversalLinear:
    """From weights to nodes, with one channel."""
    layout = UniversalLayout.of(spec, ALL)
    return UniversalLinear(inputs(spec), layout.outputs, layout.sizes, 1, 1, layout.families).double()


def inputs(spec: WeightSpec) -> list[Signature]:
    """The tensors of states of all weights; kernel positions are copies too."""
    places = UniversalLayout.of(spec, ALL).blocks.values()
    return [Signature(place.axes, place.signature.copies * place.position_count) for place in places]


def rank(layer: UniversalLinear, spec: WeightSpec) -> int:
    """The dimension of all maps of the layer: the rank of its Jacobian over random inputs.

    The outputs are linear in the parameters, so a column of the Jacobian is an output at unit parameters.
    """
    generator = torch.Generator().manual_seed(0)
    states = [
        torch.randn(
            spec.parameter_count + 1, *(spec.axes[axis].size for axis in axes), copies, generator=generator
        ).double()
        for axes, copies in inputs(spec)
    ]
    columns = []
    for direction in torch.eye(parameters(layer), dtype=torch.float64):
        nn.utils.vector_to_parameters(direction, layer.parameters())
        with torch.no_grad():
            columns.append(torch.cat([output.flatten() for output in layer(states)]))
    jacobian = torch.stack(columns)
    return int(torch.linalg.matrix_rank(jacobian @ jacobian.T, rtol=1e-10))


def dimension_by_brute_force(spec: WeightSpec, *, to_nodes: bool = False) -> int:
    """The dimension of all affine maps that commute with the group, from its generators alone.

    A matrix commutes with permutations if and only if it is constant on the orbits of pairs of an output
    and an input; constants likewise on the orbits of outputs.
    """
    generators = [(flat_weights(spec, a), flat_nodes(spec, a)) for a in neighbours_swapped(spec)]
    still = Action()
    start, nodes = flat_weights(spec, still), flat_nodes(spec, still)
    target = nodes if to_nodes else start
    moves = [(moved_nodes if to_nodes else moved, moved) for moved, moved_nodes in generators]
    pairs = orbits(
        len(target) * len(start),
        [relabel(target, out)[:, None] * len(start) + relabel(start, into)[None, :] for out, into in moves],
    )
    return pairs + orbits(len(target), [relabel(target, out) for out, _ in moves])


def relabel(start: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """For every place the place from which its entry came."""
    return np.argsort(start)[moved]


def orbits(count: int, moves: list[np.ndarray]) -> int:
    rows = np.tile(np.arange(count), max(len(moves), 1))
    columns = np.concatenate([move.flatten() for move in moves]) if moves else rows
    return int(connected_components(coo_array((np.ones(len(rows)), (rows, columns)), (count, count)))[0])


def neighbours_swapped(spec: WeightSpec) -> list[Action]:
    """Generators of the group: transpositions of neighbours, of each member of each family."""
    found = []
    for axis in spec.hidden_axes:
        family = [spec.axes[name].size for name in axis.family]
        for member in np.ndindex(*family):
            for i in range(axis.size - 1):
                permutation = torch.arange(axis.size).expand(1, *family, -1).clone()
                permutation[(0, *member)][[i, i + 1]] = torch.tensor([i + 1, i])
                found.append(Action({axis.name: permutation}))
    return found


def flat_weights(spec: WeightSpec, action: Action) -> np.ndarray:
    """The number of every entry, after the action, in the order of the states of a layer."""
    weights, first = {}, 0
    for name, tensor in spec.tensors.items():
        count = int(np.prod(tensor.shape))
        weights[name] = torch.arange(first, first + count, dtype=torch.float64).reshape(1, *tensor.shape)
        first += count
    blocks = spec.split(apply(spec, action, weights))
    places = UniversalLayout.of(spec, ALL).blocks
    return flat([places[key].to_state(blocks[key]) for key in places])


def flat_nodes(spec: WeightSpec, action: Action) -> np.ndarray:
    places = UniversalLayout.of(spec, ALL).nodes
    nodes, first = {}, 0
    for name, place in places.items():
        count = int(np.prod(place.view))
        nodes[name] = torch.arange(first, first + count, dtype=torch.float64).reshape(1, -1, 1)
        first += count
    moved = apply_to_nodes(spec, action, nodes)
    return flat([place.to_state(moved[name].reshape(1, *place.view)) for name, place in places.items()])


def flat(tensors: list[Tensor]) -> np.ndarray:
    return torch.cat([tensor.flatten() for tensor in tensors]).long().numpy()
