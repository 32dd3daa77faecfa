"""Edits of images against their definitions."""

import numpy as np
import pytest

from wsl.tasks import TaskError
from wsl.tasks.edits import Dilate, Edit, Erode, Rotate, Sharpen, StretchContrast
from wsl.tasks.factories import value_from_plain, value_to_plain

EDITS = [Dilate(), Erode(), StretchContrast(), Rotate(), Sharpen()]


def images(*shape, seed=0):
    return np.random.default_rng(seed).uniform(size=shape)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: type(edit).__name__)
@pytest.mark.parametrize("shape", [(3, 7, 8), (2, 6, 5, 3)], ids=["gray", "colour"])
def test_edits_keep_the_shape_and_act_on_each_image_and_channel(edit, shape):
    given = images(*shape)
    made = edit(given)
    assert made.shape == shape and made.min() >= 0 and made.max() <= 1 and not np.allclose(made, given)
    np.testing.assert_allclose(edit(given[1:2]), made[1:2])
    if len(shape) == 4 and not isinstance(edit, StretchContrast):  # which keeps the colours of an image
        np.testing.assert_allclose(edit(given[..., 1]), made[..., 1])


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: type(edit).__name__)
def test_edits_survive_a_checkpoint(edit):
    assert value_from_plain(value_to_plain(edit), Edit) == edit


def test_dilation_and_erosion_are_extremes_of_the_neighbourhood():
    given = images(1, 6, 6)
    assert Dilate(3)(given)[0, 2, 3] == given[0, 1:4, 2:5].max()
    assert Erode(5)(given)[0, 2, 3] == given[0, 0:5, 1:6].min()
    assert Dilate(3)(given)[0, 0, 0] == given[0, :2, :2].max()


def test_contrast_is_stretched_from_percentile_to_percentile():
    given = np.linspace(0.4, 0.6, 100).reshape(1, 10, 10)
    made = StretchContrast(10, 90)(given)
    assert (made == 0).mean() == pytest.approx(0.1, abs=0.01) and (made == 1).mean() == pytest.approx(
        0.1, abs=0.01
    )
    inner = (made > 0) & (made < 1)
    low, high = np.percentile(given, [10, 90])
    np.testing.assert_allclose(made[inner], (given[inner] - low) / (high - low))
    assert np.isfinite(StretchContrast()(np.full((1, 4, 4), 0.3))).all()


def test_four_quarter_turns_are_none():
    given = images(2, 7, 7)
    made = given
    for _ in range(4):
        made = Rotate(90)(made)
    np.testing.assert_allclose(made, given, atol=1e-9)
    np.testing.assert_allclose(Rotate(90)(given), np.rot90(given, axes=(1, 2)), atol=1e-9)


def test_sharpening_adds_what_a_blur_takes_away():
    edge = np.zeros((1, 9, 9))
    edge[:, :, 4:] = 0.5
    made = Sharpen(1.0, 1.0)(edge)
    assert made[0, 4, 4] > 0.5 and made[0, 4, 8] == pytest.approx(0.5, abs=1e-3) and made[0, 4, 3] == 0
    np.testing.assert_allclose(Sharpen(1.0, 0.0)(edge), edge)


@pytest.mark.parametrize(
    "make",
    [lambda: Dilate(2), lambda: Erode(1), lambda: StretchContrast(50, 50), lambda: Sharpen(0.0)],
)
def test_arguments_outside_their_range_are_refused(make):
    with pytest.raises(TaskError, match="expected"):
        make()
