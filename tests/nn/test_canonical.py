"""Positive scalings divided out of weights, and the characters of signs."""

import pytest
import torch
from hypothesis import given, settings

from wsl.graph import graph_layout
from wsl.nn import canonical_steps, canonicalise, sign_characters
from wsl.spec import WeightSpec
from wsl.symmetry import apply, sample
from wsl.testing import random_specs, random_weights

MLP = WeightSpec.parse(
    """
    axes   h1: 3 hidden relu positive   h2: 2 hidden relu positive   x: 2 input   y: 2 output
    fc1.weight   h1 x
    fc1.bias     h1
    fc2.weight   h2 h1
    fc3.weight   y h2
    scaling: h1 positive fc1.weight+1 fc1.bias+1 fc2.weight-1
    scaling: h2 positive fc2.weight+1 fc3.weight-1
    """
)
NORMED = WeightSpec.parse(
    """
    axes   c: 3 hidden relu positive   x: 2 input   y: 2 output
    conv.weight        c x _   _=3
    bn.weight          c
    bn.bias            c
    bn.running_var     c
    fc.weight          y (c 4)
    scaling: c positive conv.weight+1 bn.running_var+2
    scaling: c positive bn.weight+1 bn.bias+1 fc.weight-1
    """
)
HEADS = WeightSpec.parse(
    """
    axes   c: 3 hidden   h: 2 hidden   d: 4 hidden positive   x: 2 input   y: 2 output
    in.weight    c x
    v.weight     (h d[h]) c
    v.bias       (h d[h])
    out.weight   y (h d[h])
    scaling: d positive v.weight+1 v.bias+1 out.weight-1
    """
)
READ_ONLY = WeightSpec.parse(
    "axes h: 3 hidden relu positive  y: 2 output\nloop.weight h h\nhead.weight y h\n"
    "scaling: h positive loop.weight@0+1 loop.weight@1-1 head.weight-1"
)


@pytest.mark.parametrize("spec", [MLP, NORMED, HEADS, READ_ONLY], ids=["mlp", "normed", "heads", "read only"])
def test_nothing_but_the_scale_is_lost(spec: WeightSpec) -> None:
    weights = random_weights(spec, 2)
    action = sample(spec, 2, permute=False, scale=True, dtype=torch.float64)
    before, after = spec.split(weights), spec.split(apply(spec, action, weights))
    canonical, factors = canonicalise(spec, before)
    moved, moved_factors = canonicalise(spec, after)
    assert not canonical_steps(spec)[1]
    for key in before:
        assert (canonical[key] - moved[key]).abs().max() < 1e-12, key
        if key in factors:
            assert torch.allclose(canonical[key] * factors[key], before[key], atol=0, rtol=1e-12)
            assert torch.allclose(moved[key] * moved_factors[key], after[key], atol=0, rtol=1e-12)
        else:
            assert canonical[key] is before[key]


def test_rows_have_norm_one() -> None:
    canonical, _ = canonicalise(MLP, MLP.split(random_weights(MLP, 2)))
    first = torch.cat([canonical["fc1.weight"], canonical["fc1.bias"].unsqueeze(2)], dim=2)
    assert torch.allclose(first.square().mean(2), torch.ones(2, 3, dtype=torch.float64))
    assert torch.allclose(canonical["fc2.weight"].square().mean(2), torch.ones(2, 2, dtype=torch.float64))


def test_the_function_stays() -> None:
    """Canonical weights are those of an equivalent network."""
    weights = random_weights(MLP, 1)
    canonical = MLP.join(canonicalise(MLP, MLP.split(weights))[0])
    x = torch.randn(5, 2, dtype=torch.float64)

    def run(w: dict[str, torch.Tensor]) -> torch.Tensor:
        hidden = (x @ w["fc1.weight"][0].T + w["fc1.bias"][0]).relu()
        return (hidden @ w["fc2.weight"][0].T).relu() @ w["fc3.weight"][0].T

    assert torch.allclose(run(canonical), run(weights))


def test_backward_weights_scale_as_the_inverse() -> None:
    """A weight divided by the square of its factor: bounded, and scaled as the reciprocal is."""
    weights = random_weights(MLP, 1)
    weights["fc2.weight"][0, 0, 0] = 1e-15
    action = sample(MLP, 1, permute=False, scale=True, dtype=torch.float64)
    found = []
    for moved in (weights, apply(MLP, action, weights)):
        canonical, factors = canonicalise(MLP, MLP.split(moved))
        found.append(canonical["fc2.weight"] / factors["fc2.weight"])
    ratio = apply(MLP, action, weights)["fc2.weight"] / weights["fc2.weight"]
    assert torch.allclose(found[1] * ratio, found[0], atol=0, rtol=1e-9)
    assert found[0].abs().max() < 1e3


def test_dead_neurons_vanish() -> None:
    weights = random_weights(MLP, 1)
    weights["fc1.weight"][:, 1] = weights["fc1.bias"][:, 1] = 0
    leaf = weights["fc1.weight"].requires_grad_()
    canonical, factors = canonicalise(MLP, MLP.split(weights))
    assert not canonical["fc1.weight"][:, 1].any() and not canonical["fc2.weight"][:, :, 1].any()
    assert not factors["fc2.weight"][..., 1].any()
    total = torch.stack([block.square().sum() for block in canonical.values()]).sum()
    assert torch.autograd.grad(total, leaf)[0].isfinite().all()
    assert canonical["fc2.weight"][:, :, [0, 2]].abs().min() > 0


def test_loops_that_nothing_else_shows_are_left() -> None:
    spec = WeightSpec.parse(
        "axes h: 3 hidden relu positive\nloop.weight h h\nscaling: h positive loop.weight@0+1 loop.weight@1-1"
    )
    assert canonical_steps(spec) == ((), spec.scalings)
    blocks = spec.split(random_weights(spec, 1))
    canonical, factors = canonicalise(spec, blocks)
    assert canonical == blocks and not factors


def test_characters_of_layers() -> None:
    spec = WeightSpec.parse(
        """
        axes   h1: 3 hidden sin sign   h2: 2 hidden relu positive   x: 2 input   y: 2 output
        fc1.weight   h1 x
        fc1.bias     h1
        fc2.weight   h2 h1
        fc3.weight   y h2
        scaling: h1 sign fc1.weight+1 fc1.bias+1 fc2.weight+1
        scaling: h2 positive fc2.weight+1 fc3.weight-1
        """
    )
    characters = sign_characters(graph_layout(spec))
    assert characters.blocks == {"fc1.weight", "fc1.bias", "fc2.weight"} and characters.nodes == {"h1"}
    assert set(characters.messages.values()) == {("product", "product"), ("product",)}


def test_characters_follow_edges_without_weights() -> None:
    """Of an LSTM: the cell gate, the cell and the output flip; other gates read the output, and do not."""
    spec = WeightSpec.parse(
        """
        axes   h: 3 hidden tanh sign   x: 2 input   y: 1 output
        ih      (h + h) x
        hh      (h + h) h
        head    y h
        scaling: h sign ih[1]+1 hh[1]@0+1 hh[0]@1-1 hh[1]@1-1 head-1
        nodes  x: x   h: h   i: h sigmoid   g: h tanh   c: h tanh   y: y
        edge: x i ih[0]
        edge: x g ih[1]
        edge: h i hh[0]
        edge: h g hh[1]
        edge: i c
        edge: g c
        edge: c h
        edge: h y head
        """
    )
    characters = sign_characters(graph_layout(spec))
    assert characters.nodes == {"h", "g", "c"} and characters.blocks == {"ih[1]", "hh[0]", "hh[1]", "head"}
    assert characters.messages["hh[0]"] == characters.messages["hh[1]"] == ("product", "product")
    assert characters.identities == (("nothing", "edge"), ("product", "product"), ("product", "product"))


def test_several_flips_of_one_axis_do_not_match() -> None:
    spec = WeightSpec.parse(
        """
        axes   h: 3 hidden tanh sign   x: 2 input   y: 2 output
        in.weight     h x
        norm.weight   h
        out.weight    y h
        scaling: h sign in.weight+1 norm.weight+1
        scaling: h sign norm.weight+1 out.weight+1
        """
    )
    messages = sign_characters(graph_layout(spec)).messages
    assert messages["norm.weight"] == ("product",)
    assert messages["in.weight"] == ("nothing", "nothing") and "product" not in messages["out.weight"]


@settings(max_examples=30)
@given(spec=random_specs(None, max_size=3))
def test_any_spec_is_read(spec: WeightSpec) -> None:
    characters = sign_characters(graph_layout(spec))
    flipped = {e.key for s in spec.scalings if s.kind != "positive" for e in s.exponents if e.power % 2}
    assert characters.blocks <= flipped
    assert not canonical_steps(spec)[1]
