"""Building zoos of classifiers: columns, populations, resuming, workers, divergence, configuration files."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
import yaml
from jsonargparse import ArgumentParser
from population_suite import ENTRIES, DrawnPopulationSuite

from wsl.cli import main
from wsl.zoo import ZooError, verify_zoo
from wsl.zoo.classifiers import Range, SmallCnns, TrainingRecipe, build_classifier_zoo
from wsl.zoo.images import ArrayImages, DigitsImages

CONFIGS = sorted((Path(__file__).parents[3] / "configs" / "zoo").glob("*cnn*.yaml"))
RECIPE = TrainingRecipe(
    **ENTRIES,
    label_noise=[0.0, 0.5],
    batch_size=[16, 32],
    epochs=[1, 3],
    checkpoints=[0, 1],
)
NETS = SmallCnns(channels=(4, 5), activation=["relu", "tanh"])


def build(out, **changes):
    given = {"source": DigitsImages(), "networks": 12, "architecture": NETS, "recipe": RECIPE}
    return build_classifier_zoo(out, **{**given, "limit": 150, "progress": False, **changes})


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    return build(tmp_path_factory.mktemp("zoo") / "z.h5")


def test_rows_are_checkpoints_with_all_that_was_drawn(zoo):
    columns = zoo.metadata
    assert set(columns) == {
        "model", "step", "updates", "activation", "learning_rate", "weight_decay", "dropout", "optimizer",
        "initialisation", "initial_scale", "train_fraction", "label_noise", "batch_size", "epochs",
        "train_images", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "diverged",
    }  # fmt: skip
    assert set(columns["model"]) == set(range(12))
    for model in range(12):
        rows = columns["model"] == model
        epochs = columns["epochs"][rows][0]
        assert columns["step"][rows].tolist() == sorted({0, 1, int(epochs)})
        images, batch = columns["train_images"][rows][0], columns["batch_size"][rows][0]
        assert columns["updates"][rows][-1] == np.ceil(epochs * images / batch)
        assert images == max(1, round(columns["train_fraction"][rows][0] * 120))
    for name, drawn in (("optimizer", 4), ("initialisation", 2), ("batch_size", 2), ("learning_rate", 12)):
        assert len(set(columns[name])) == drawn
    assert set(zoo.architectures) == {"cnn-relu", "cnn-tanh"}
    assert [name.removeprefix("cnn-") for name in zoo.architecture_of()] == columns["activation"].tolist()
    assert verify_zoo(zoo.path).ok


def test_stored_networks_have_the_stored_accuracy(zoo):
    images = DigitsImages().load().limited(150)
    tested = np.random.default_rng(0).permutation(150)[:30]
    pixels, labels = images.signals(tested) * 2 - 1, images.labels[tested]
    for architecture in zoo.architectures.values():
        module = architecture.forward.build()
        for place in range(0, len(architecture), 4):
            weights = {name: tensor[0] for name, tensor in architecture.weights([place]).items()}
            with torch.no_grad():
                outputs = torch.func.functional_call(module, weights, pixels)
            right = (outputs.argmax(1).numpy() == labels).mean()
            assert architecture.metadata["test_accuracy"][place] == pytest.approx(right, abs=1.5 / 30)


class TestPopulation(DrawnPopulationSuite):
    builder, build, recipe = build_classifier_zoo, staticmethod(build), RECIPE
    drawn_last: ClassVar = {"label_noise": 0.0, "batch_size": 32, "epochs": 1}
    one_stack: ClassVar = {"networks": 1, "limit": 100}
    drawn = ("learning_rate", "optimizer", "train_images", "label_noise")
    diverging: ClassVar = {
        "recipe": TrainingRecipe(learning_rate=[1e-3, 1e30], optimizer="sgd", epochs=2, checkpoints=[0]),
        "architecture": SmallCnns((4, 5), "none"),
    }


def test_networks_learn(tmp_path):
    recipe = TrainingRecipe(learning_rate=0.01, epochs=3, checkpoints=[0], batch_size=16)
    nets = SmallCnns((16, 32), "relu", stride=1)
    zoo = build(tmp_path / "z.h5", networks=10, recipe=recipe, limit=None, evaluated=200, architecture=nets)
    accuracy, step = zoo.metadata["test_accuracy"], zoo.metadata["step"]
    assert (accuracy[step == 0] < 0.35).all()
    assert (accuracy[step == 3] > 0.75).all()
    assert np.median(accuracy[step == 3]) > 0.85


def test_few_evaluated_images_are_of_all_classes(tmp_path):
    digits = DigitsImages().load()
    order = np.argsort(digits.labels, kind="stable")
    np.savez(tmp_path / "sorted.npz", images=digits.pixels[order], labels=digits.labels[order])
    source = ArrayImages(tmp_path / "sorted.npz")
    found = [
        build(tmp_path / f"{n}.h5", networks=10, limit=None, source=source, test_source=source, evaluated=n)
        for n in (300, None)
    ]
    few, every = (zoo.metadata["test_accuracy"] for zoo in found)
    assert np.abs(few - every).max() < 0.12
    zoo = build(tmp_path / "limited.h5", networks=10, limit=100, source=source)
    assert all(forward.arguments["classes"] == 10 for forward in forwards(zoo))
    assert zoo.provenance["source"]["images"] == 100


def forwards(zoo):
    return [architecture.forward for architecture in zoo.architectures.values()]


def test_a_test_source_and_few_evaluated_images(tmp_path):
    images = DigitsImages().load()
    for name, part in (("train", slice(0, 200)), ("test", slice(200, 260))):
        np.savez(tmp_path / f"{name}.npz", images=images.pixels[part], labels=images.labels[part])
    sources = {
        "source": ArrayImages(tmp_path / "train.npz"),
        "test_source": ArrayImages(tmp_path / "test.npz"),
    }
    zoo = build(tmp_path / "z.h5", networks=10, evaluated=10, **sources)
    assert np.allclose(zoo.metadata["test_accuracy"] * 10 % 1, 0)
    assert zoo.provenance["test_source"]["images"] == 60


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"limit": 1}, "have the label 0"),
        ({"architecture": SmallCnns((4, 4, 4))}, "8 x 8 pixels are too small"),
    ],
)
def test_unusable_arguments_write_nothing(tmp_path, changes, said):
    with pytest.raises(ZooError, match=said):
        build(tmp_path / "z.h5", **changes)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [{"label_noise": 1.5}, {"epochs": -1}])
def test_unusable_recipes_are_refused(arguments):
    with pytest.raises(ZooError, match=f"recipe.{next(iter(arguments))}"):
        TrainingRecipe(**arguments)


@pytest.mark.parametrize(("low", "high", "log"), [(1, 0, False), (0, 1, True), (float("nan"), 1, False)])
def test_unusable_ranges_are_refused(low, high, log):
    with pytest.raises(ZooError, match="range"):
        Range(low, high, log)


def test_ranges():
    generator = np.random.default_rng(0)
    drawn = np.log10([Range(1e-4, 1e-1, log=True).draw(generator) for _ in range(2000)])
    assert -4 <= drawn.min() < -3.9 and -1.1 < drawn.max() <= -1
    assert drawn.mean() == pytest.approx(-2.5, abs=0.07)


def test_images_without_labels_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((50, 8, 8), np.uint8))
    with pytest.raises(ZooError, match="have no labels"):
        build(tmp_path / "z.h5", source=ArrayImages(tmp_path / "a.npy"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configuration_files_hold_the_builder_s_arguments(path):
    parser = ArgumentParser()
    parser.add_function_arguments(build_classifier_zoo, skip={"out"})
    arguments = parser.instantiate(parser.parse_object(yaml.safe_load(path.read_text())))
    assert isinstance(arguments.recipe, TrainingRecipe)
    assert isinstance(arguments.recipe.learning_rate, Range) and arguments.recipe.learning_rate.log
    assert arguments.networks >= 400
    assert len(arguments.recipe.stored(arguments.recipe.epochs)) == 5


def test_the_command_builds(tmp_path, capsys):
    config = yaml.safe_load(next(path for path in CONFIGS if "small" in path.name).read_text())
    config |= {"source": {"class_path": "wsl.zoo.images.DigitsImages"}, "test_source": None, "networks": 12}
    config |= {"limit": 100, "evaluated": 20}
    config["architecture"]["init_args"]["channels"] = [16, 16]
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    out = str(tmp_path / "z.h5")
    assert main(["zoo", "build-classifiers", "--config", str(tmp_path / "c.yaml"), "--out", out]) == 0
    captured = capsys.readouterr()
    assert "60 networks" in captured.out
    assert "12/12 networks" in captured.err
