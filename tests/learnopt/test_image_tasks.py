"""Classifiers of images: what they see, and that the stack computes what the network does."""

import numpy as np
import pytest
import torch

from wsl.learnopt import Adam, advance, start
from wsl.learnopt.tasks import CnnImages, MlpImages, Task
from wsl.learnopt.tasks._image_data import area_resize
from wsl.zoo.images import Coloured, DigitsImages, ImageSet, ImageSource

SEEDS = torch.tensor([3, 8, 3])


class Blobs(ImageSource):
    """Gray 28x28 images of two classes."""

    def load(self):
        pixels = np.random.default_rng(0).random((40, 28, 28), dtype=np.float32)
        labels = np.arange(40) % 2
        pixels[labels == 1, :14] *= 0.2
        return ImageSet(pixels, labels)


def make(kind):
    if kind == "mlp":
        return MlpImages(limit=100, hidden=(12, 8), activation="tanh", batch_size=16)
    if kind == "linear":
        return MlpImages(limit=100, hidden=(), batch_size=16)
    source = Coloured(Blobs()) if kind == "coloured cnn" else Blobs()
    return CnnImages(source, channels=(4, 4, 4), batch_size=8)


@pytest.mark.parametrize("kind", ["mlp", "linear", "cnn", "coloured cnn"])
def test_the_stack_is_each_network(kind):
    task = make(kind).to(dtype=torch.float64)
    params, batch = task.init(SEEDS), task.batch(SEEDS, torch.tensor([0, 1, 5]))
    values, grads = task.values_and_grads(params, batch)
    slow, slow_grads = torch.func.vmap(torch.func.grad_and_value(task.loss))(params, batch)[::-1]
    torch.testing.assert_close(values, slow)
    torch.testing.assert_close(values, Task.values(task, params, batch))
    for name, grad in grads.items():
        torch.testing.assert_close(grad, slow_grads[name])
    assert values.sub(np.log(task.classes)).abs().max() < 1


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_training_lowers_the_loss(kind):
    task, rule = make(kind), Adam(0.01)
    with torch.no_grad():
        losses = advance(task, rule, start(task, rule, SEEDS, 1000), 60).losses
    assert (losses[-5:].mean(0) < 0.8 * losses[:5].mean(0)).all()
    assert "hidden" in str(task.spec)


def test_pixels_are_standardised_and_held_out_images_apart():
    task = MlpImages()
    images, others = task.data["train_inputs"], task.data["test_inputs"]
    assert images.mean().abs() < 1e-6
    assert images.std() == pytest.approx(1, abs=1e-6)
    assert (len(images), len(others)) == (1797 - 359, 359)
    raw = DigitsImages().load()
    assert torch.equal(task.data["test_targets"][:2], torch.from_numpy(raw.labels)[[4, 9]])
    ratio = (others[:2].flatten(1) - others[0].min()).numpy() / raw.pixels[[4, 9]].reshape(2, -1).clip(1e-9)
    assert np.ptp(ratio[raw.pixels[[4, 9]].reshape(2, -1) > 0]) < 1e-4


def test_area_resize_is_a_mean_over_areas():
    images = torch.rand(2, 3, 28, 28, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(area_resize(images, (7, 14)), torch.nn.functional.avg_pool2d(images, (4, 2)))
    fine = images.repeat_interleave(2, 2).repeat_interleave(2, 3)  # 8 does not divide 28, but it does 56
    torch.testing.assert_close(area_resize(images, (8, 8)), torch.nn.functional.avg_pool2d(fine, 7))


def test_images_are_not_enlarged():
    with pytest.raises(ValueError, match=r"\(8, 8\) and cannot be made \(9, 8\)"):
        MlpImages(size=(9, 8))
