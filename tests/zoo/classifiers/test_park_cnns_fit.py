"""Encoders that take any architecture learn on a zoo whose networks all differ, by the command line."""

import csv
import json

import pytest

from wsl.cli import main
from wsl.report import learning_curves
from wsl.zoo import Zoo
from wsl.zoo.classifiers import ParkCnns, TrainingRecipe, build_classifier_zoo
from wsl.zoo.images import DigitsImages

pytestmark = [
    pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory"),
    pytest.mark.filterwarnings("ignore:Experiment logs directory"),
]
TRAINED = [
    "--trainer.accelerator",
    "cpu",
    "--name",
    "a",
    "--data",
    "ZooDataModule",
    "--data.batch_size",
    "16",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    nets = ParkCnns(distinct=8, depth=[2, 4], channels=[4, 8], kernel_size=3, first_stride=4)
    recipe = TrainingRecipe(epochs=0, initial_scale=[0.5, 2.0])
    out = tmp_path_factory.mktemp("zoo") / "z.h5"
    zoo = build_classifier_zoo(
        out, DigitsImages(), 50, None, nets, recipe, limit=50, workers=1, progress=False
    )
    assert len(zoo.architectures) == 8
    return str(zoo.path)


def fit(path, repository, encoder, *options):
    chosen = ["--config", str(repository / "configs" / "encoder" / f"{encoder}.yaml")]
    small = ["--model.encoder.channels", "8", "--model.encoder.layers", "1", "--data.path", path]
    return main(["fit", *options[:2], *chosen, *TRAINED, *small, *options[2:]])


@pytest.mark.parametrize(
    "encoder", [pytest.param("graph_metanetwork", marks=pytest.mark.slow), "fast_graph_metanetwork"]
)
def test_depth_is_learned(path, folder, repository, encoder):
    given = ["--data.label", "depth", "--trainer.max_epochs", "6", "--model.optimizer.lr", "0.02"]
    assert fit(path, repository, encoder, "--model", "INRClassification", *given) == 0
    curves = learning_curves(folder / "runs" / "a")
    _, loss = curves["train/loss"]
    assert loss[-1] < 0.7 * loss[0]
    assert curves["val/accuracy"][1][-1] > 0.6


def test_accuracy_is_predicted_for_depths_not_trained_on(path, folder, repository, capsys):
    assert main(["zoo", "info", path]) == 0
    assert "depth" in capsys.readouterr().out
    assert main(["zoo", "verify", path]) == 0
    where = ["--data.where", json.dumps({"train": "depth <= 3", "val": "depth <= 3", "test": "depth > 3"})]
    given = [
        "--data.label",
        "test_accuracy",
        "--monitor",
        "val/mae",
        "--mode",
        "min",
        "--trainer.max_epochs",
        "1",
    ]
    task = ["--model", "GeneralizationPrediction"]
    assert fit(path, repository, "fast_graph_metanetwork", *task, *where, *given) == 0
    assert main(["predict", "--name", "a"]) == 0
    with open(folder / "runs/a/predictions.csv", newline="") as file:
        rows = [int(line["row"]) for line in csv.DictReader(file)]
    zoo = Zoo.open(path)
    assert set(rows) <= set(zoo.split("test"))
    assert set(zoo.metadata["depth"][rows]) == {4}
