"""Equivariant affine maps on chains: all of them, none twice, by brute force and by the package ``nfn``."""

import itertools
import math

import pytest
import torch
from nfn.common import ArraySpec, NetworkSpec, WeightSpaceFeatures
from nfn.layers import HNPLinear, NPLinear
from torch import Tensor, nn

from wsl.nn import ChainLinear, DWSLayer, NFNLayer, weight_chain
from wsl.spec import WeightSpec
from wsl.testing import random_weights

MLP = WeightSpec.parse(
    "axes h1: 3 hidden  h2: 2 hidden  x: 2 input  y: 2 output\n"
    "fc1.weight h1 x\nfc1.bias h1\nfc2.weight h2 h1\nfc3.weight y h2\nfc3.bias y"
)
DEEP = WeightSpec.parse(
    "axes h1: 3 hidden  h2: 2 hidden  h3: 2 hidden  x: 2 input  y: 2 output\n"
    "0.weight h1 x\n0.bias h1\n1.weight h2 h1\n1.bias h2\n2.weight h3 h2\n2.bias h3\n3.weight y h3\n3.bias y"
)
CNN = WeightSpec.parse(
    "axes c1: 3 hidden  c2: 2 hidden  x: 2 input  y: 2 output\n"
    "conv1.weight c1 x _   _=2\nbn.weight c1\nbn.bias c1\nconv2.weight c2 c1 _   _=3\nconv2.bias c2\n"
    "fc.weight y (c2 2)\nscales _   _=2"
)
SHALLOW = WeightSpec.parse(
    "axes h: 3 hidden  x: 2 input  y: 2 output\nin.weight h x\nout.weight y h\nout.bias y"
)
LINEAR = WeightSpec.parse("axes x: 2 input  y: 3 output\nfc.weight y x\nfc.bias y")
SPECS = {"mlp": MLP, "deep": DEEP, "cnn": CNN, "shallow": SHALLOW, "linear": LINEAR}


def orbits(spec: WeightSpec, all_axes: bool, arity: int) -> int:
    """Orbits of tuples of entries under permutations, by joining what adjacent transpositions exchange.

    Those of pairs are as many as equivariant linear maps, those of entries as invariant vectors.
    """
    entries = [
        (ref.key, index)
        for ref in spec.blocks
        for index in itertools.product(*(range(size) for size in ref.block.view))
    ]
    parent = {pair: pair for pair in itertools.product(entries, repeat=arity)}

    def root(pair: tuple) -> tuple:
        while parent[pair] != pair:
            pair = parent[pair]
        return pair

    for axis in spec.axes.values():
        if axis.kind != "hidden" and not all_axes:
            continue
        for i in range(axis.size - 1):

            def move(entry: tuple, name: str = axis.name, i: int = i) -> tuple:
                key, index = entry
                axes = spec.block(key).block.axes
                swapped = {i: i + 1, i + 1: i}
                return key, tuple(
                    swapped.get(k, k) if a == name else k for a, k in zip(axes, index, strict=True)
                )

            for pair in list(parent):
                parent[root(pair)] = root(tuple(map(move, pair)))
    return sum(parent[pair] == pair for pair in parent)


def features(spec: WeightSpec, batch: int, channels: int, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        ref.key: torch.randn(batch, *ref.block.view, channels, dtype=torch.float64, generator=generator)
        for ref in spec.blocks
    }


def mapped(layer: ChainLinear, inputs: dict[str, Tensor]) -> Tensor:
    """All outputs in a row, by the layer's own parameters."""
    outputs = layer.unfold(layer(layer.gather(inputs)))
    return torch.cat([outputs[ref.key].flatten() for ref in layer.chain.spec.blocks])


class OfPackage(nn.Module):
    """A layer of the package ``nfn`` on features by block key; weights and biases alternate."""

    def __init__(self, kind: type, spec: WeightSpec, fan_in: int, fan_out: int) -> None:
        super().__init__()
        shapes = [tensor.shape for tensor in spec.tensors.values()]
        network = NetworkSpec([ArraySpec(s) for s in shapes[::2]], [ArraySpec(s) for s in shapes[1::2]])
        self.layer = kind(network, fan_in, fan_out).double()

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        tensors = [value.movedim(-1, 1) for value in inputs.values()]
        outputs = self.layer(WeightSpaceFeatures(tensors[::2], tensors[1::2]))
        pairs = zip(outputs.weights, outputs.biases, strict=True)
        return torch.cat([value.movedim(1, -1).flatten() for pair in pairs for value in pair])


class Mapped(nn.Module):
    def __init__(self, layer: ChainLinear) -> None:
        super().__init__()
        self.layer = layer.double()

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        return mapped(self.layer, inputs)


def columns(module: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    """What each parameter makes of the inputs, ``(outputs, parameters)``; outputs are linear in them."""
    parameters = {name: p.detach() for name, p in module.named_parameters()}
    made = torch.func.jacfwd(lambda p: torch.func.functional_call(module, p, (inputs,)))(parameters)
    return torch.cat([made[name].flatten(1) for name in parameters], dim=1)


def rank(matrix: Tensor) -> int:
    return int(torch.linalg.matrix_rank(matrix, rtol=1e-10))


@pytest.mark.parametrize("all_axes", [False, True], ids=["hnp", "np"])
@pytest.mark.parametrize("name", SPECS)
def test_all_equivariant_maps_and_none_twice(name: str, all_axes: bool) -> None:
    spec = SPECS[name]
    module = Mapped(ChainLinear(weight_chain(spec, all_axes=all_axes), 1, 1))
    maps, vectors = orbits(spec, all_axes, 2), orbits(spec, all_axes, 1)
    parameters = sum(p.numel() for p in module.parameters())
    assert parameters == maps + vectors
    entries = sum(math.prod(tensor.shape) for tensor in spec.tensors.values())
    assert rank(columns(module, features(spec, entries + 3, 1))) == parameters
    wide = ChainLinear(weight_chain(spec, all_axes=all_axes), 3, 2)
    assert sum(p.numel() for p in wide.parameters()) == 6 * maps + 2 * vectors


@pytest.mark.parametrize("kind", [ChainLinear, NFNLayer, DWSLayer])
@pytest.mark.parametrize("name", SPECS)
def test_commutes_with_permutations_of_all_axes(name: str, kind: type[ChainLinear]) -> None:
    spec = SPECS[name]
    layer = kind(weight_chain(spec, all_axes=True), 2, 3).double()
    inputs = features(spec, 2, 2)

    def move(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        moved = {}
        for key, value in tensors.items():
            for dim, axis in enumerate(spec.block(key).block.axes):
                value = value.roll(1, dim + 1) if axis != "_" else value
            moved[key] = value
        return moved

    before, after = (layer.unfold(layer(layer.gather(given))) for given in (inputs, move(inputs)))
    for key, value in move(before).items():
        assert (after[key] - value).abs().max() < 1e-12


@pytest.mark.parametrize("conv", [False, True], ids=["mlp", "cnn"])
@pytest.mark.parametrize(("kind", "all_axes"), [(HNPLinear, False), (NPLinear, True)], ids=["hnp", "np"])
def test_equals_the_package(kind: type, all_axes: bool, conv: bool) -> None:
    """Weights are mapped by least squares on some inputs, and hold on others."""
    torch.manual_seed(0)
    kernels = (" _ _   _=2x1", " _ _   _=1x2", "", "") if conv else ("", "", "", "")
    lines = str(DEEP).split("\n")
    lines[1::2] = [line + kernel for line, kernel in zip(lines[1::2], kernels, strict=True)]
    spec = WeightSpec.parse("\n".join(lines))
    theirs = OfPackage(kind, spec, 2, 1)
    ours = Mapped(ChainLinear(weight_chain(spec, all_axes=all_axes), 2, 1))
    given, other = features(spec, 40, 2), features(spec, 5, 2, seed=1)
    basis = columns(ours, given)
    values = torch.linalg.lstsq(basis, theirs(given).unsqueeze(-1).detach(), driver="gelsd").solution
    with torch.no_grad():
        nn.utils.vector_to_parameters(values.flatten(), ours.parameters())
        assert (ours(other) - theirs(other)).abs().max() < 1e-9
    missing = basis.shape[1] - rank(columns(theirs, given))
    # The package's HNP-layer lacks maps from the last hidden bias (2 channels) to the last weights (2 rows).
    assert missing == (0 if all_axes else 4)


@pytest.mark.parametrize("name", SPECS)
def test_fused_update_equals_plain_operators(name: str) -> None:
    spec = SPECS[name]
    layer = NFNLayer(weight_chain(spec, all_axes=True), 2, 3).double()
    inputs = features(spec, 4, 2)
    found = mapped(layer, inputs)
    layer.update = lambda *given: ChainLinear.update(layer, *given)
    assert (mapped(layer, inputs) - found).abs().max() < 1e-12


def test_maxima_of_single_neurons_are_means() -> None:
    """Pooling differs only where there is something to pool."""
    text = str(MLP).replace(": 3", ": 1").replace(": 2", ": 1")
    spec = WeightSpec.parse(text)
    layer = DWSLayer(weight_chain(spec), 2, 3).double()
    inputs = features(spec, 4, 2)
    found = mapped(layer, inputs)
    layer.pool = lambda values, dim: values.mean(dim)
    assert (mapped(layer, inputs) - found).abs().max() < 1e-12
    bigger = DWSLayer(weight_chain(MLP), 2, 3).double()
    inputs = features(MLP, 4, 2)
    found = mapped(bigger, inputs)
    bigger.pool = lambda values, dim: values.mean(dim)
    assert (mapped(bigger, inputs) - found).abs().max() > 1e-3


def test_folding_goes_back() -> None:
    for spec, all_axes in itertools.product(SPECS.values(), (False, True)):
        layer = ChainLinear(weight_chain(spec, all_axes=all_axes), 1, 1)
        inputs = {key: value.unsqueeze(-1) for key, value in spec.split(random_weights(spec, 2)).items()}
        back = layer.unfold(layer.gather(inputs))
        assert back.keys() == inputs.keys()
        assert all(torch.equal(back[key], inputs[key]) for key in inputs)


def test_initial_scale_is_kept() -> None:
    """Parameters lie within one over the root of the number of all inputs of an output."""
    torch.manual_seed(0)
    layer = ChainLinear(weight_chain(MLP), 5, 7)
    assert layer.whole.shape == (5 * 8, 7 * 8), "the multiplicities of 5 blocks: 2 1 1 2 2"
    fan = 5 * (1 + 4 + 3 + 8)  # entries of fc2.weight, what h1 and h2 carry, what is pooled over all axes
    assert 0.8 * fan**-0.5 < layer.matrices[0].abs().max() <= fan**-0.5
    assert layer.bias.abs().max() > 0
