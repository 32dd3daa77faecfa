"""Fitting: targets between pixels, stopping, and independence of the other networks."""

import math

import pytest
import torch
from torch.nn.functional import interpolate

from wsl.models import coordinate_grid
from wsl.zoo import ZooError
from wsl.zoo.images import DigitsImages
from wsl.zoo.inr import FitRecipe, FourierConfig, SirenConfig
from wsl.zoo.inr._fit import fit_networks
from wsl.zoo.inr._points import PHASES, PointSets, Targets, phase_axes, phase_targets, phase_values, psnr

SIREN = SirenConfig(hidden=(12, 12), w0=10.0)


@pytest.fixture(scope="module")
def images():
    return DigitsImages().load().signals(range(6)) - 0.5


def fit(images, recipe, config=SIREN, first_seed=0):
    seeds = range(first_seed, first_seed + len(images))
    phases = PHASES if recipe.half_pixel_phases else PHASES[:1]
    targets = phase_targets(images, phases)
    return fit_networks(config.stack(2, 1), config.initial_rows(seeds, 2, 1), targets, recipe)


def quality(rows, images, phase=(0, 0), config=SIREN):
    outputs = config.stack(2, 1).outputs(rows, phase_axes(images.shape[2:], phase))
    return psnr((outputs - phase_values(images, phase)).square().mean((1, 2)))


def test_phase_zero_is_the_pixel_grid(images):
    assert torch.equal(phase_axes((3, 5), (0, 0)).coordinates(), coordinate_grid((3, 5)))
    assert torch.equal(phase_values(images, (0, 0)), images.flatten(2))


@pytest.mark.parametrize("phase", PHASES)
def test_phases_are_bilinear_interpolation_inside_the_image(images, phase):
    fine = interpolate(images, size=(15, 15), mode="bilinear", align_corners=True)
    expected = fine[:, :, phase[0] :: 2, phase[1] :: 2]
    torch.testing.assert_close(phase_values(images, phase), expected.flatten(2))
    fine_points = coordinate_grid((15, 15)).view(15, 15, 2)[phase[0] :: 2, phase[1] :: 2]
    torch.testing.assert_close(phase_axes((8, 8), phase).coordinates(), fine_points.reshape(-1, 2))


def test_adam_equals_torch_adam(images):
    recipe = FitRecipe(steps=15, learning_rate=3e-3, betas=(0.7, 0.9))
    rows = SIREN.initial_rows(range(6), 2, 1).double()
    fitted = fit_networks(SIREN.stack(2, 1), rows, phase_targets(images.double()), recipe).rows
    leaf = rows.clone().requires_grad_()
    adam = torch.optim.Adam([leaf], recipe.learning_rate, betas=recipe.betas)
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda t: 0.5 * (1 + math.cos(math.pi * t / 15)))
    for step in range(15):
        axes = phase_axes((8, 8), PHASES[step % 4], torch.float64)
        outputs = SIREN.stack(2, 1).outputs(leaf, axes)
        loss = (outputs - phase_values(images.double(), PHASES[step % 4])).square().mean((1, 2)).sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
        schedule.step()
    torch.testing.assert_close(fitted, leaf.detach(), rtol=0, atol=1e-9)


def test_fitting_reaches_the_pixels_and_what_is_between(images):
    with_phases = fit(images, FitRecipe(steps=160, learning_rate=0.02)).rows
    without = fit(images, FitRecipe(steps=160, learning_rate=0.02, half_pixel_phases=False)).rows
    assert quality(with_phases, images).median() > 29
    assert quality(with_phases, images, (1, 1)).median() > 29
    assert quality(without, images).median() > 50
    assert quality(without, images, (1, 1)).median() < 25


def test_fourier_networks_fit(images):
    config = FourierConfig(hidden=(24, 24), frequencies=12)
    rows = fit(images, FitRecipe(steps=150, learning_rate=2e-2), config).rows
    assert quality(rows, images, config=config).median() > 25


def test_networks_stop_at_their_target(images):
    recipe = FitRecipe(steps=160, learning_rate=0.02, target_psnr=24.0)
    fitted = fit(images, recipe)
    reached = quality(fitted.rows, images)
    assert (fitted.steps < 160).all()
    assert len(set(fitted.steps.tolist())) > 1, "all stopped at once, so compaction went untested"
    assert (reached >= 24 - 1e-3).all()
    assert (reached < 28).all(), "stopped late"


def test_a_network_does_not_depend_on_the_others(images):
    recipe = FitRecipe(steps=60, target_psnr=24.0)
    together = fit(images, recipe)
    for i in range(len(images)):
        alone = fit(images[i : i + 1], recipe, first_seed=i)
        assert alone.steps[0] == together.steps[i]
        torch.testing.assert_close(alone.rows[0], together.rows[i], rtol=1e-3, atol=1e-4)


def test_networks_fit_points_of_their_own_and_stop_each(images):
    generator = torch.Generator().manual_seed(0)
    positions = torch.rand(6, 40, 3, generator=generator) * 2 - 1
    wanted = (positions @ torch.randn(6, 3, 1, generator=generator)).mT / 2
    targets = Targets([PointSets(positions[:, :20]), PointSets(positions[:, 20:])], list(wanted.split(20, 2)))
    recipe = FitRecipe(steps=200, target_psnr=45.0)
    stack, initial = SIREN.stack(3, 1), SIREN.initial_rows(range(6), 3, 1)
    fitted = fit_networks(stack, initial, targets, recipe)
    assert (fitted.steps < 200).all()
    assert len(set(fitted.steps.tolist())) > 1, "all stopped at once, so compaction went untested"
    first = stack.outputs(fitted.rows, targets.points[0]) - targets.values[0]
    assert (psnr(first.square().mean((1, 2))) >= 45 - 1e-3).all()
    alone = fit_networks(stack, initial[3:4], targets.keep(torch.arange(6) == 3), recipe)
    assert alone.steps[0] == fitted.steps[3]
    torch.testing.assert_close(alone.rows[0], fitted.rows[3], rtol=1e-3, atol=1e-4)


def test_target_is_in_units_of_the_signal(images):
    recipe = FitRecipe(steps=160, learning_rate=0.02, target_psnr=24.0)
    initial = SIREN.initial_rows(range(6), 2, 1)
    fitted = fit_networks(SIREN.stack(2, 1), initial, phase_targets(images / 2), recipe, output_scale=2.0)
    outputs = SIREN.stack(2, 1).outputs(fitted.rows, phase_axes((8, 8), (0, 0)))
    assert (fitted.steps < 160).all()
    reached = psnr((2 * outputs - images.flatten(2)).square().mean((1, 2)))
    assert ((reached >= 24 - 1e-3) & (reached < 28)).all()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"steps": 0}, "steps"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"betas": (0.9, 1.0)}, "betas"),
        ({"target_psnr": 500.0}, "target_psnr"),
    ],
)
def test_unusable_recipes_are_refused(arguments, named):
    with pytest.raises(ZooError, match=named):
        FitRecipe(**arguments)
