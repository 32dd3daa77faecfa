"""Maps of coordinates are absorbed exactly: the moved networks are run, and the old ones at moved points."""

import math

import pytest
import torch

from wsl.augment import (
    AugmentError,
    Networks,
    RotateInputs,
    ScaleInputs,
    TranslateInputs,
    augment,
    move_coordinates,
)
from wsl.models import FourierMLP, Siren, SmallCNN
from wsl.trace import trace

MODULES = {
    "siren": lambda generator: Siren(2, (6, 5), 3, generator=generator),
    "siren in space": lambda generator: Siren(3, (6,), 1, w0=9.0, generator=generator),
    "fourier": lambda generator: FourierMLP(2, (6, 5), 3, frequencies=4, generator=generator),
    "fourier in space": lambda generator: FourierMLP(3, (6,), 1, frequencies=5, generator=generator),
}


def build(name, count=4):
    generator = torch.Generator().manual_seed(0)
    modules = [MODULES[name](generator).double() for _ in range(count)]
    states = [module.state_dict() for module in modules]
    return modules[0], {key: torch.stack([state[key] for state in states]) for key in states[0]}


def run(module, weights, points):
    """Outputs ``(B, P, out)`` of networks at points ``(B, P, n)`` of their own."""
    return torch.func.vmap(lambda w, x: torch.func.functional_call(module, w, (x,)))(weights, points)


def points_of(module, count):
    dims = module.layers[0].in_features if isinstance(module, Siren) else module.frequency_matrix.shape[1]
    generator = torch.Generator().manual_seed(1)
    return 2 * torch.rand(count, 7, dims, generator=generator, dtype=torch.float64) - 1


def spec_of(module):
    return trace(module, points_of(module, 1)[0])


def assert_moved(module, weights, moved, matrix, shift):
    points = points_of(module, len(matrix))
    expected = run(module, weights, points @ matrix.mT + shift.unsqueeze(1))
    torch.testing.assert_close(run(module, moved, points), expected, rtol=0, atol=1e-9)
    assert not torch.allclose(expected, run(module, weights, points), atol=1e-3)


@pytest.mark.parametrize("name", ["siren", "siren in space"])
def test_sirens_absorb_any_affine_map(name):
    module, weights = build(name)
    generator = torch.Generator().manual_seed(2)
    dims = points_of(module, 1).shape[-1]
    matrix = torch.randn(4, dims, dims, generator=generator, dtype=torch.float64)
    shift = torch.randn(4, dims, generator=generator, dtype=torch.float64)
    assert_moved(module, weights, move_coordinates(module, weights, matrix, shift), matrix, shift)


def test_sirens_without_a_bias_are_turned_but_not_moved():
    module, weights = build("siren")
    module.layers[0].register_parameter("bias", None)
    del weights["layers.0.bias"]
    matrix, shift = RotateInputs(40).draw(4, 2, torch.Generator().manual_seed(2))
    assert_moved(module, weights, move_coordinates(module, weights, matrix, shift), matrix, shift)
    with pytest.raises(AugmentError, match="has no bias"):
        move_coordinates(module, weights, matrix, shift + 1)


@pytest.mark.parametrize("name", ["fourier", "fourier in space"])
@pytest.mark.parametrize("turned", [1.0, -1.0])
def test_fourier_features_absorb_shifts_and_the_point_reflection(name, turned):
    module, weights = build(name)
    dims = points_of(module, 1).shape[-1]
    matrix = turned * torch.eye(dims, dtype=torch.float64).expand(4, -1, -1)
    shift = torch.randn(4, dims, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    assert_moved(module, weights, move_coordinates(module, weights, matrix, shift), matrix, shift)


def test_fourier_features_on_a_lattice_absorb_quarter_turns():
    module, weights = build("fourier")
    module.frequency_matrix.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [-1.0, 2.0]]))
    quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64).expand(4, -1, -1)
    shift = torch.full((4, 2), 0.3, dtype=torch.float64)
    assert_moved(module, weights, move_coordinates(module, weights, quarter, shift), quarter, shift)


@pytest.mark.parametrize("name", sorted(MODULES))
@pytest.mark.parametrize("augmentation", [RotateInputs(40), ScaleInputs(1.5), TranslateInputs(0.4)])
def test_augmentations_draw_such_maps(name, augmentation):
    module, weights = build(name, count=30)
    given = Networks(spec_of(module), weights, module=module)
    if name.startswith("fourier") and not isinstance(augmentation, TranslateInputs):
        for act in (
            lambda: augmentation.check(module),
            lambda: augment(given, [augmentation], generator=torch.Generator()),
        ):
            with pytest.raises(AugmentError, match="needs a Siren and was given a FourierMLP"):
                act()
        return
    augmentation.check(module)
    moved = augment(given, [augmentation], generator=torch.Generator().manual_seed(5)).weights
    dims = points_of(module, 1).shape[-1]
    matrix, shift = augmentation.draw(30, dims, torch.Generator().manual_seed(5))
    assert_moved(module, weights, moved, matrix, shift)


@pytest.mark.parametrize("dims", [2, 3])
def test_draws_keep_to_their_limits(dims):
    generator = torch.Generator().manual_seed(0)
    matrix, shift = RotateInputs(40).draw(500, dims, generator)
    one = torch.eye(dims, dtype=torch.float64).expand_as(matrix)
    torch.testing.assert_close(matrix @ matrix.mT, one)
    assert (torch.linalg.det(matrix) > 0).all() and not shift.any()
    cosines = (matrix.diagonal(dim1=1, dim2=2).sum(1) - (dims - 2)) / 2
    angles = cosines.clamp(-1, 1).arccos() * 180 / math.pi
    assert angles.max() <= 40 + 1e-6 and 18 < angles.mean() < 22
    assert (matrix[:, 0, 1] > 0).any() and (matrix[:, 0, 1] < 0).any()
    matrix, shift = ScaleInputs(1.5).draw(500, dims, generator)
    assert 1 / 1.5 <= matrix[:, 0, 0].min() < 0.7 and 1.45 < matrix[:, 0, 0].max() <= 1.5
    assert torch.equal(matrix, matrix[:, :1, :1] * one) and not shift.any()
    matrix, shift = TranslateInputs(0.4).draw(500, dims, generator)
    assert torch.equal(matrix, one) and 0.39 < shift.abs().max() <= 0.4 and shift.min() < 0 < shift.max()


def test_what_cannot_be_absorbed_is_refused():
    module, weights = build("fourier")
    turn = torch.eye(2, dtype=torch.float64).expand(4, -1, -1) * 1.01
    with pytest.raises(AugmentError, match="cannot absorb"):
        move_coordinates(module, weights, turn, torch.zeros(4, 2))
    with pytest.raises(AugmentError, match=r"expected \(4, 2, 2\)"):
        move_coordinates(module, weights, turn[:2], torch.zeros(4, 2))
    with pytest.raises(AugmentError, match="given a SmallCNN"):
        TranslateInputs().check(SmallCNN())
    with pytest.raises(AugmentError, match="no rotations"):
        RotateInputs().check(Siren(1, (4,), 1))
    with pytest.raises(AugmentError, match="given no module"):
        augment(Networks(spec_of(module), weights), [TranslateInputs()], generator=torch.Generator())
    for wrong in (lambda: RotateInputs(-1), lambda: ScaleInputs(0.5), lambda: TranslateInputs(-1)):
        with pytest.raises(AugmentError, match="expected"):
            wrong()
