"""The head for networks of any architecture; equality in any batch is tested with the encoders."""

import pytest
import torch

from wsl.encoders import GraphMetanetwork, WeightFeatures
from wsl.graph import ROLES
from wsl.nn import PooledHead
from wsl.spec import SpecError, WeightSpec
from wsl.testing import random_weights

SMALL = WeightSpec.parse(
    "axes h1: 6 hidden  x: 2 input  y: 1 output\na.weight h1 x\na.bias h1\nb.weight y h1"
)
LARGE = WeightSpec.parse(
    "axes h1: 3 hidden  h2: 5 hidden  x: 2 input  y: 1 output\n"
    "a.weight h1 x\nb.weight h2 h1\nc.weight y h2\nc.bias y\nscale _   _=2"
)


def features(spec: WeightSpec, count: int = 2) -> WeightFeatures:
    torch.manual_seed(0)
    return GraphMetanetwork(spec, channels=4, layers=1)(random_weights(spec, count, dtype=torch.float32))


def test_pools_nodes_by_kind_and_weights_by_role() -> None:
    given = features(LARGE)
    hidden, inputs, outputs, fixed, *roles = PooledHead(4, 3).pool([(LARGE, given)]).split(4, dim=1)
    nodes, tensors = given.nodes, given.tensors
    torch.testing.assert_close(hidden, (nodes["h1"].mean(1) + nodes["h2"].mean(1)) / 2)
    torch.testing.assert_close(inputs, nodes["x"].mean(1))
    torch.testing.assert_close(outputs, nodes["y"].mean(1))
    assert not fixed.any()
    own = dict(zip(ROLES, roles, strict=True))
    weights = [tensors[f"{name}.weight"].mean((1, 2)) for name in "abc"]
    torch.testing.assert_close(own["weight"], torch.stack(weights).mean(0))
    torch.testing.assert_close(own["bias"], tensors["c.bias"].mean(1))
    torch.testing.assert_close(own["other"], tensors["scale"].mean(1))
    assert not own["running_mean"].any() and not own["running_var"].any()


def test_one_set_of_parameters_for_all_architectures() -> None:
    head = PooledHead(4, 3)
    small, large = features(SMALL, 3), features(LARGE, 2)
    both = head([(SMALL, small), (LARGE, large)])
    torch.testing.assert_close(both, torch.cat([head([(SMALL, small)]), head([(LARGE, large)])]))
    assert both.shape == (5, 3)
    dropping = PooledHead(4, 3, hidden=5, dropout=0.5)
    assert dropping.layers[0].out_features == 5 and dropping.layers[2].p == 0.5


LINEAR = WeightSpec.parse("axes x: 3 input  y: 2 output\nfc.weight y x")
NO_NEURONS = WeightSpec.parse("axes\nscales  _ _   _=2x3\nshift  _   _=2")


@pytest.mark.parametrize("spec", [LINEAR, NO_NEURONS, WeightSpec.parse("axes x: 2 input\ngain  x")])
def test_what_there_is_is_pooled(spec: WeightSpec) -> None:
    """Without hidden nodes, without any node, without weights between nodes; gradients reach the weights."""
    head, weights = PooledHead(4, 3), random_weights(spec, 2, dtype=torch.float32)
    leaves = {name: weight.requires_grad_() for name, weight in weights.items()}
    torch.manual_seed(0)
    encoded = GraphMetanetwork(spec, channels=4, layers=1)(leaves)
    pooled = head.pool([(spec, encoded)])
    nodes, rest = pooled.split([16, 20], dim=1)
    assert not pooled[:, :4].any() and nodes.any() == bool(encoded.nodes) and rest.any()
    both = head([(spec, encoded), (LARGE, features(LARGE))])
    torch.testing.assert_close(both[:2], head([(spec, encoded)]))
    both.sum().backward()
    assert all(weight.grad.any() for weight in leaves.values())


def test_nothing_to_pool() -> None:
    nothing = WeightSpec.parse("axes")
    with pytest.raises(SpecError, match="neither neurons nor weights"):
        PooledHead(4, 3)([(nothing, WeightFeatures({}, {}))])


def test_features_that_an_encoder_leaves_out_are_named() -> None:
    given = features(SMALL)
    with pytest.raises(SpecError, match="no nodes for the node sets y"):
        PooledHead(4, 3)([(SMALL, given._replace(nodes={n: given.nodes[n] for n in ("h1", "x")}))])
    with pytest.raises(SpecError, match=r"no tensors for the blocks a\.bias, b\.weight"):
        PooledHead(4, 3)([(SMALL, given._replace(tensors={"a.weight": given.tensors["a.weight"]}))])
