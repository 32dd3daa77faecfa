"""Canonical signs: the same function, and the same weights for all sign flips of a network."""

import torch
from hypothesis import given, settings
from torch.func import functional_call

import wsl
from wsl import symmetry
from wsl.encoders import GraphMetanetwork
from wsl.models import Siren, coordinate_grid
from wsl.nn import canonical_signs
from wsl.spec import WeightSpec
from wsl.testing import assert_equivariant, random_specs, random_weights


@settings(max_examples=40)
@given(spec=random_specs(["mlp"]))
def test_one_representative_of_all_flips(spec: WeightSpec) -> None:
    spec = WeightSpec(spec.axes, spec.tensors, [s for s in spec.scalings if s.kind == "sign"])
    weights = random_weights(spec, 3)
    generator = torch.Generator().manual_seed(1)
    action = symmetry.sample(spec, 3, permute=False, scale=True, generator=generator, dtype=torch.float64)
    fixed = canonical_signs(spec, weights)
    other = canonical_signs(spec, symmetry.apply(spec, action, weights))
    assert all(torch.allclose(fixed[name], other[name], rtol=0, atol=1e-12) for name in weights)
    again = canonical_signs(spec, fixed)
    assert all(torch.equal(again[name], fixed[name]) for name in weights)


def test_biases_are_not_negative_and_the_function_stays() -> None:
    siren, grid = Siren(2, (5, 4), 1).double(), coordinate_grid((3, 3)).double()
    spec = wsl.trace(siren, grid)
    weights = random_weights(spec, 1)
    fixed = canonical_signs(spec, weights)
    for name in ("layers.0.bias", "layers.1.bias"):
        assert torch.equal(fixed[name], weights[name].abs())
    before, after = ({name: tensor[0] for name, tensor in w.items()} for w in (weights, fixed))
    assert torch.allclose(
        functional_call(siren, before, grid), functional_call(siren, after, grid), atol=1e-12
    )


def test_an_encoder_that_uses_them_ignores_signs() -> None:
    spec = wsl.trace(Siren(2, (5, 4), 1), coordinate_grid((3, 3)))
    encoder = GraphMetanetwork(spec, channels=6, layers=1, frequencies=2, canonical_signs=True).double()
    assert_equivariant(encoder, spec)
    weights = random_weights(spec, 2)
    generator = torch.Generator().manual_seed(0)
    flips = symmetry.sample(spec, 2, permute=False, scale=True, generator=generator, dtype=torch.float64)
    a, b = encoder(weights), encoder(symmetry.apply(spec, flips, weights))
    assert all((a.nodes[axis] - b.nodes[axis]).abs().max() < 1e-9 for axis in spec.axes)
