"""The heads' own contract; equivariance is in every encoder's battery."""

import pytest
import torch

from wsl.encoders import WeightFeatures
from wsl.nn import EquivariantHead, InvariantHead
from wsl.spec import SpecError, WeightSpec

SPEC = WeightSpec.parse("axes h1: 6 hidden  x: 2 input  y: 1 output\na.weight h1 x\nb.weight y h1")


def features(*, nodes: str = "h1 x y", tensors: str = "a.weight b.weight") -> WeightFeatures:
    sizes = {"h1": (6,), "x": (2,), "y": (1,), "a.weight": (6, 2), "b.weight": (1, 6)}
    given = {name: torch.randn(3, *size, 4) for name, size in sizes.items()}
    return WeightFeatures(
        {name: given[name] for name in tensors.split()}, {name: given[name] for name in nodes.split()}
    )


def test_features_that_an_encoder_leaves_out_are_named() -> None:
    with pytest.raises(SpecError, match=r"no nodes for the node sets h1; they have x, y"):
        InvariantHead(SPEC, 4, 2)(features(nodes="x y"))
    for head in (InvariantHead(SPEC, 4, 2), EquivariantHead(SPEC, 4)):
        with pytest.raises(SpecError, match=r"no tensors for the blocks b\.weight; they have a\.weight"):
            head(features(tensors="a.weight"))


def test_small_axes_that_cannot_be_permuted_keep_their_order() -> None:
    given = features()
    swapped = given._replace(nodes={**given.nodes, "x": given.nodes["x"].flip(1)})
    assert not torch.allclose(InvariantHead(SPEC, 4, 2).pool(given), InvariantHead(SPEC, 4, 2).pool(swapped))
    unordered = InvariantHead(SPEC, 4, 2, ordered=1)
    assert torch.allclose(unordered.pool(given), unordered.pool(swapped))
