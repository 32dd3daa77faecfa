"""Populations of perceptrons, residual networks and vision Transformers: trained, stored, run again."""

import numpy as np
import pytest
import torch

from wsl.zoo import ZooError, verify_zoo
from wsl.zoo.classifiers import Mlps, Range, ResNets, TrainingRecipe, Vits, build_classifier_zoo
from wsl.zoo.images import DigitsImages

RECIPE = TrainingRecipe(
    learning_rate=Range(3e-3, 3e-2, log=True), batch_size=16, dropout=[0.0, 0.1], epochs=2, checkpoints=[0]
)
NETS = {
    "mlp": Mlps(width=[8, 16], depth=[1, 2]),
    "resnet": ResNets(width=[4, 6], stages=2, norm=["batch", "layer"]),
    "vit": Vits(width=[8, 12], depth=[1, 2], patch=4),
}


@pytest.mark.parametrize("kind", list(NETS))
def test_zoos_of_several_architectures(tmp_path, kind):
    zoo = build_classifier_zoo(
        tmp_path / "z.h5",
        DigitsImages(),
        10,
        architecture=NETS[kind],
        recipe=RECIPE,
        limit=200,
        progress=False,
    )
    assert verify_zoo(zoo.path).ok
    assert len(zoo) == 20
    assert len(zoo.architectures) > 2
    assert len(set(zip(zoo.metadata["width"], zoo.metadata["depth"], strict=True))) > 1
    last = zoo.metadata["step"] == 2
    assert (zoo.metadata["train_loss"][last] < zoo.metadata["train_loss"][~last]).mean() > 0.8
    images = DigitsImages().load().limited(200)
    tested = np.random.default_rng(0).permutation(200)[:40]
    pixels, labels = images.signals(tested) * 2 - 1, images.labels[tested]
    for name, architecture in zoo.architectures.items():
        assert name.startswith(kind)
        module = architecture.forward.build()
        weights = {name: tensor[-1] for name, tensor in architecture.weights([len(architecture) - 1]).items()}
        with torch.no_grad():
            outputs = torch.func.functional_call(module, weights, pixels)
        right = (outputs.argmax(1).numpy() == labels).mean()
        assert architecture.metadata["test_accuracy"][-1] == pytest.approx(right, abs=1.5 / 40)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Mlps(width=0), "width is 0"),
        (lambda: Mlps(depth=[]), "depth"),
        (lambda: ResNets(norm="group"), "norm"),
        (lambda: ResNets(stages=0), "stages"),
        (lambda: Vits(width=[8, 9]), "heads 2 do not divide"),
        (lambda: Vits(activation="step"), "activation"),
    ],
)
def test_unusable_arguments_are_refused(make, said):
    with pytest.raises(ZooError, match=said):
        make()


def test_images_that_do_not_consist_of_patches_are_refused(tmp_path):
    with pytest.raises(ZooError, match="patches of 7 x 7"):
        build_classifier_zoo(tmp_path / "z.h5", DigitsImages(), 10, architecture=Vits())
