"""What the graph metanetwork reads of traced networks: norms, attention heads, residual connections."""

from functools import lru_cache

import pytest
import torch
from small_networks import traced
from torch import Tensor, nn

import wsl
from wsl.encoders import GraphMetanetwork
from wsl.nn import InvariantHead
from wsl.spec import WeightSpec
from wsl.testing import random_weights


class PreNorm(nn.Module):
    """A transformer block with norms before its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 4)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(4), nn.LayerNorm(4), nn.RMSNorm(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.up, self.down, self.head = nn.Linear(4, 6), nn.Linear(6, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        x = x + self.down(self.up(self.norm2(x)).relu())
        return self.head(self.norm3(x))


@lru_cache
def block() -> WeightSpec:
    torch.manual_seed(0)
    return wsl.trace(PreNorm().eval(), torch.rand(2, 5, 3))


def made(spec: WeightSpec) -> tuple[GraphMetanetwork, InvariantHead]:
    torch.manual_seed(0)
    encoder = GraphMetanetwork(spec, channels=8, layers=4, frequencies=3).double()
    return encoder, InvariantHead(spec, 8, 3).double()


def difference(spec: WeightSpec, other: dict[str, Tensor] | WeightSpec, weights: dict[str, Tensor]) -> float:
    """How far a classifier's outputs are apart, of other weights, or of the same ones in another graph."""
    encoder, head = made(spec)
    before = head(encoder(weights))
    after = encoder.for_spec(other)(weights) if isinstance(other, WeightSpec) else encoder(other)
    return (before - head(after)).abs().max().item()


def without(spec: WeightSpec, *pairs: tuple[str, str]) -> WeightSpec:
    """The same tensors in a graph that lacks some edges without weights."""
    edges = [e for e in spec.edges if e.block is not None or (e.source, e.target) not in pairs]
    assert len(edges) == len(spec.edges) - len(pairs)
    return WeightSpec(spec.axes.values(), spec.tensors, spec.scalings, nodes=spec.nodes, edges=edges)


def test_every_parameter_of_norms_is_read() -> None:
    for spec in (block(), traced("resnet")):
        weights = random_weights(spec, 1)
        names = [name for name in weights if "norm" in name or "bn" in name]
        assert len(names) >= 5
        for name in names:
            changed = {**weights, name: weights[name] + 0.1 * torch.rand_like(weights[name])}
            assert difference(spec, changed, weights) > 1e-6, name


def test_which_norm_a_parameter_belongs_to_is_read() -> None:
    """Norms along one residual stream have parameters of equal shapes, which are no set."""
    weights = random_weights(block(), 1)
    for a, b in (
        ("norm1.weight", "norm2.weight"),
        ("norm1.bias", "norm2.bias"),
        ("norm1.weight", "norm1.bias"),
    ):
        assert difference(block(), {**weights, a: weights[b], b: weights[a]}, weights) > 1e-6, (a, b)


@pytest.mark.parametrize(
    "pairs",
    [
        [("h1", "h1.3")],
        [("h1.3", "h1.5")],
        [("h1", "h1.2")],
        [("h3", "h2"), ("h3.2", "h2")],
        [("h2.2", "h4.2")],
        [("h4", "h4.2")],
    ],
    ids=["around attention", "around the MLP", "into the norm", "scores", "attention weights", "values"],
)
def test_edges_without_weights_are_read(pairs: list[tuple[str, str]]) -> None:
    assert difference(block(), without(block(), *pairs), random_weights(block(), 1)) > 1e-6


def test_projected_shortcuts_are_read() -> None:
    """A shortcut and the branch beside it end at the same neurons; which one a weight is on is seen."""
    spec = traced("resnet")
    weights = random_weights(spec, 1)
    name = "1.shortcut.weight"
    assert difference(spec, {**weights, name: 2 * weights[name]}, weights) > 1e-6
    a, b = "1.shortcut.bias", "1.bn2.bias"
    assert difference(spec, {**weights, a: weights[b], b: weights[a]}, weights) > 1e-6


def test_heads_hold_together() -> None:
    """To exchange whole heads is a symmetry; to exchange those of the queries alone is none, and is seen."""
    weights, width = random_weights(block(), 1), 2
    whole, queries = dict(weights), dict(weights)
    for name in ("attention.in_proj_weight", "attention.in_proj_bias"):
        parts = weights[name].unflatten(1, (3, 2, width))
        whole[name] = parts.flip(2).flatten(1, 3)
        queries[name] = torch.cat([parts[:, :1].flip(2), parts[:, 1:]], dim=1).flatten(1, 3)
    name = "attention.out_proj.weight"
    whole[name] = weights[name].unflatten(2, (2, width)).flip(2).flatten(2)
    assert difference(block(), whole, weights) < 1e-9
    assert difference(block(), queries, weights) > 1e-6


def test_queries_keys_and_values_are_told_apart() -> None:
    weights = random_weights(block(), 1)
    parts = weights["attention.in_proj_weight"].chunk(3, dim=1)
    for order in ((1, 0, 2), (0, 2, 1)):
        changed = {**weights, "attention.in_proj_weight": torch.cat([parts[i] for i in order], dim=1)}
        assert difference(block(), changed, weights) > 1e-6, order


def test_edges_nodes_and_networks_are_updated() -> None:
    """Far weights reach the state of each neuron, of each weight, and of the network."""
    spec = block()
    encoder, _ = made(spec)
    weights = random_weights(spec, 1)
    changed = {**weights, "head.bias": weights["head.bias"] + 0.1}
    before, after = encoder(weights), encoder(changed)
    assert (before.nodes["x"] - after.nodes["x"]).abs().min() > 1e-9
    assert (before.tensors["embed.weight"] - after.tensors["embed.weight"]).abs().max() > 1e-9
    states = [encoder.update(encoder.embed(given)[1]).network for given in (weights, changed)]
    assert (states[0] - states[1]).abs().max() > 1e-9
