"""Neural functional networks: the battery for NP, and of both kinds encodings, sizes, degenerate cases."""

import copy

import pytest
import torch
from encoder_suite import EncoderSuite
from known_topologies import TOPOLOGIES
from small_networks import CNN, MLP
from torch import Tensor

import wsl
from wsl.encoders import NFNHNP, NFNNP, DWSNet
from wsl.encoders._chain import ChainEncoder
from wsl.models import Siren, coordinate_grid
from wsl.nn import index_encoding
from wsl.spec import SpecError, WeightSpec
from wsl.testing import assert_equivariant, random_weights

BOTH = pytest.mark.parametrize("family", [NFNHNP, NFNNP])


class TestNFNNP(EncoderSuite):
    kinds = ("mlp", "cnn", "depthwise", "fixed", "low_rank")
    takes = (MLP, CNN, TOPOLOGIES["tied"])
    takes_traced = ("mlp", "siren", "cnn")

    def make(self, spec: WeightSpec) -> NFNNP:
        return NFNNP(spec, channels=6, layers=2, frequencies=3)


def test_sizes_on_sirens() -> None:
    """Of 2-32-32-1: HNP 1 matrix, axes carry 4 and 3, in all 7; NP 3 matrices, axes 1, 3, 3, 2, in all 6."""
    spec = wsl.trace(Siren(2, (32, 32), 1), coordinate_grid((4, 4)))
    widths = (33 * 8 + 8 * 8, (33 + 13) * 8 + 8 * 8)
    maps = (1 + 4**2 + 3**2 + 7**2, 3 + 1 + 3**2 + 3**2 + 2**2 + 6**2)
    for family, width, count, biases in zip((NFNHNP, NFNNP), widths, maps, (7, 6), strict=True):
        encoder = family(spec, channels=8, layers=2)
        assert sum(p.numel() for p in encoder.parameters()) == width * count + 2 * biases * 8


def test_np_does_not_grow_with_the_inputs() -> None:
    texts = [f"axes h: 3 hidden  x: {n} input  y: 2 output\na.weight h x\nb.weight y h" for n in (2, 9)]
    sizes = {
        family: [sum(p.numel() for p in family(WeightSpec.parse(text)).parameters()) for text in texts]
        for family in (NFNHNP, NFNNP)
    }
    assert sizes[NFNNP][0] == sizes[NFNNP][1] and sizes[NFNHNP][0] < sizes[NFNHNP][1]


def test_indices_are_encoded_where_they_are_fixed() -> None:
    encoding = index_encoding(MLP, "fc1.weight", 6)
    assert encoding.shape == (1, 2, 13)
    first, last = encoding[0]
    assert torch.equal(first[:6], -last[:6]) and torch.equal(first[6:12], last[6:12])
    assert (first[12], last[12]) == (-1, 1)
    assert encoding.abs().max() <= 1 and (first - last).abs().max() > 1
    assert not index_encoding(MLP, "fc2.weight", 6).any()
    assert index_encoding(CNN, "fc.weight", 2).shape == (2, 1, 1, 5)
    square = WeightSpec.parse("axes x: 3 input  y: 3 output\nw y x")
    both = index_encoding(square, "w", 6)
    assert (both - both.transpose(0, 1)).abs().max() > 0.1, "the encodings of both axes are told apart"


@BOTH
def test_second_derivatives(family: type[ChainEncoder]) -> None:
    torch.manual_seed(0)
    encoder = family(MLP, channels=3, layers=2, frequencies=1).double()
    weights, key = random_weights(MLP, 1), "fc2.weight"

    def slope(value: Tensor) -> Tensor:
        nodes = encoder({**weights, key: value}).nodes
        total = sum(part.sin().sum() for part in nodes.values())
        return torch.autograd.grad(total, value, create_graph=True)[0]

    assert torch.autograd.gradcheck(slope, weights[key].requires_grad_())


@BOTH
def test_degenerate_networks(family: type[ChainEncoder]) -> None:
    for text in (
        "axes x: 3 input  y: 2 output\nfc.weight y x",
        "axes h: 1 hidden  x: 1 input  y: 1 output\na.weight h x\nb.weight y h",
        "axes h: 4 hidden  x: 3 input  y: 2 output\na.weight h x\na.bias h\nb.weight y h",
    ):
        spec = WeightSpec.parse(text)
        assert_equivariant(family(spec, channels=4, layers=2, frequencies=1).double(), spec)
    encoder = family(MLP, channels=4, layers=1)
    features = encoder({name: torch.zeros(0, *tensor.shape) for name, tensor in MLP.tensors.items()})
    assert features.nodes["h1"].shape == (0, 3, 4)
    with pytest.raises(ValueError, match="at least one layer, got layers=0"):
        family(MLP, layers=0)
    with pytest.raises(SpecError, match="families are not supported"):
        family(TOPOLOGIES["attention"])


@pytest.mark.parametrize("family", [NFNHNP, NFNNP, DWSNet])
def test_checkpoints_keep_nothing_else(family: type[ChainEncoder]) -> None:
    """Inputs of layers are kept by the checkpoints themselves; gradients are the same."""
    plain = family(CNN, channels=4, layers=2)
    twin = copy.deepcopy(plain)
    twin.checkpoint = True
    weights = random_weights(CNN, 2, dtype=torch.float32)
    kept: list[list[int]] = []
    for encoder in (plain, twin):
        kept.append([])
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept[-1].append(t.numel()) or t, lambda t: t):
            features = encoder(weights)
        sum(part.square().sum() for parts in features for part in parts.values()).backward()
    for one, other in zip(plain.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=0, atol=0)
    assert sum(kept[1]) < 0.2 * sum(kept[0])
