"""Attention among weights: against the sums of the paper written out, and the package ``nfn``; families."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from nfn.common import ArraySpec, NetworkSpec, WeightSpaceFeatures
from nfn.layers import NPAttention
from torch import Tensor, nn

from wsl.nn import WeightAttention, _edge_update
from wsl.nn._nft_step import _attend, _step, attention_step

MLP = [("h", "x"), ("h",), ("y", "h"), ("y",), ("h", "h")]
SIZES = {"h": 3, "x": 2, "y": 2}


def written_out(layer: WeightAttention, tensors: list[Tensor]) -> list[Tensor]:
    """One network; for every dimension the attention of vectors along it, and that of means. No family."""

    def project(tensor: Tensor) -> Tensor:
        return layer.query_key_value(layer.attention_norm(tensor)).unflatten(-1, (3, layer.plan.heads, -1))

    def attend(query: Tensor, tokens: list[Tensor]) -> Tensor:
        """``(n, 3, heads, c)`` each, to ``(n, heads, c)``."""
        heads = []
        for head in range(layer.plan.heads):
            scale = math.sqrt(query[:, 0, head].numel())
            scores = torch.stack([(query[:, 0, head] * token[:, 1, head]).sum() / scale for token in tokens])
            weights = scores.softmax(0)
            heads.append(sum(w * token[:, 2, head] for w, token in zip(weights, tokens, strict=True)))
        return torch.stack(heads, dim=1)

    def vectors(tensor: Tensor, dim: int) -> Tensor:
        return tensor.movedim(dim, -4).reshape(-1, tensor.shape[dim], *tensor.shape[-3:])

    projected = [project(tensor) for tensor in tensors]
    means = [tensor.flatten(0, -4).mean(0, keepdim=True) for tensor in projected]
    outputs = []
    for axes, tensor, mean, state in zip(MLP, projected, means, tensors, strict=True):
        total = torch.zeros_like(state) + attend(mean, means).flatten()
        for dim, axis in enumerate(axes):
            tokens = [
                vector
                for other, found in zip(MLP, projected, strict=True)
                for place, name in enumerate(other)
                if name == axis
                for vector in vectors(found, place)
            ]
            rows = torch.stack([attend(query, tokens).flatten(-2) for query in vectors(tensor, dim)])
            moved = state.movedim(dim, -2)
            total = total + rows.reshape(moved.shape).movedim(-2, dim)
        outputs.append(state + total)
    return [state + layer.out(layer.hidden(layer.norm(state)).relu()) for state in outputs]


def joined(tensors: Sequence[Tensor]) -> Tensor:
    """All entries of one network, channels first: ``(1, C, N)``."""
    return torch.cat([tensor.flatten(0, -2) for tensor in tensors]).T.unsqueeze(0)


def small() -> tuple[WeightAttention, list[Tensor]]:
    """A layer whose norms are no identity, and states of one network."""
    layer = WeightAttention(MLP, SIZES, channels=6, heads=2).double()
    for norm in (layer.attention_norm, layer.norm):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return layer, [torch.randn(*(SIZES[axis] for axis in axes), 6, dtype=torch.float64) for axes in MLP]


def test_equals_the_sums_of_the_paper() -> None:
    layer, tensors = small()
    torch.testing.assert_close(layer(joined(tensors)), joined(written_out(layer, tensors)))


ARCHITECTURES = {
    "one hidden layer": ([("h", "x"), ("h",), ("y", "h"), ("y",), ("h", "h")], {}),
    "families": ([("h", "d"), ("e", "h", "d"), ("h",), ("e",), ()], {"d": ("h",)}),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those derived by hand are those of plain operators, for several chunks; second ones are right too."""
    monkeypatch.setattr(_edge_update, "_CHUNK_BYTES", 1)
    tensors, families = ARCHITECTURES[name]
    sizes = {**SIZES, "d": 2, "e": 2}
    layer = WeightAttention(tensors, sizes, channels=4, heads=2, families=families).double()
    count = sum(math.prod(sizes[axis] for axis in axes) for axes in tensors)
    states = torch.randn(2, 4, count, dtype=torch.float64, requires_grad=True)
    parameters = [torch.randn(12, 4), torch.randn(12), torch.randn(8, 4), torch.randn(8), torch.randn(4, 8)]
    inputs = [x.double().requires_grad_() for x in (*parameters, torch.randn(4))]
    torch.autograd.gradcheck(lambda x, *p: attention_step(layer.plan, x, p), (states, *inputs))
    torch.autograd.gradgradcheck(
        lambda x: attention_step(layer.plan, x, inputs).sin(), states, fast_mode=True
    )
    plain = _step(layer.plan, states, *inputs)
    torch.testing.assert_close(attention_step(layer.plan, states, inputs), plain)


def test_equals_the_authors_attention() -> None:
    """With its parameters, which hold queries, keys and values of a head side by side, channels first."""
    sizes, channels, heads = (2, 4, 3, 1), 6, 3
    weights = [torch.randn(5, channels, n, m) for m, n in pairwise(sizes)]
    biases = [torch.randn(5, channels, n) for n in sizes[1:]]
    shapes = NetworkSpec(
        [ArraySpec((n, m)) for m, n in pairwise(sizes)], [ArraySpec((n,)) for n in sizes[1:]]
    )
    peer = NPAttention(shapes, channels, num_heads=heads)
    axes = [("x", 2), ("h1", 4), ("h2", 3), ("y", 1)]
    tensors = [t for (m, _), (n, _) in pairwise(axes) for t in ((n, m), (n,))]
    layer = WeightAttention(tensors, dict(axes), channels, heads)
    with torch.no_grad():
        for own, given in zip(
            layer.query_key_value.parameters(), peer.to_qkv.linear.parameters(), strict=True
        ):
            own.copy_(given.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2))
    expected = peer(WeightSpaceFeatures(weights, biases))
    found = attended(layer, side_by_side(weights, biases))
    torch.testing.assert_close(found, side_by_side(expected.weights, expected.biases))


def side_by_side(weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """All entries row-major: ``(B, C, N)``."""
    parts = itertools.chain.from_iterable(zip(weights, biases, strict=True))
    return torch.cat([part.flatten(2) for part in parts], dim=-1)


def attended(layer: WeightAttention, states: Tensor) -> Tensor:
    """The attention of states ``(B, C, N)``, without norm, residual connection and MLP."""
    with torch.no_grad():
        mapped = layer.query_key_value(torch.cat([states, *layer.plan.means(states)], dim=-1).mT).mT
        return _attend(layer.plan, mapped)[0]


def test_members_of_a_family_do_not_attend_to_one_another() -> None:
    """Along the inner axis of head 0 nothing is read from head 1, as tokens of one member differ alike."""
    layer = WeightAttention([("h", "d")], {"h": 2, "d": 3}, 4, 2, {"d": ("h",)}).double()
    layer.plan = replace(layer.plan, groups=layer.plan.groups[1:])
    state = torch.randn(1, 4, 6, dtype=torch.float64)
    changed = torch.cat([state[..., :3], torch.randn(1, 4, 3, dtype=torch.float64)], dim=-1)

    def differences(state: Tensor) -> Tensor:
        """Of the terms of head 0 from each other, without the term of the whole tensor."""
        first = attended(layer, state)[..., :3]
        return first - first.mean(-1, keepdim=True)

    torch.testing.assert_close(differences(changed), differences(state))
    assert differences(state).abs().max() > 1e-2


@pytest.mark.parametrize("heads", [0, 4])
def test_heads(heads: int) -> None:
    with pytest.raises(ValueError, match=f"channels=6, heads={heads}"):
        WeightAttention(MLP, SIZES, 6, heads)
