"""Generalization prediction by the command line: train, test, predict, report."""

import csv
import json

import numpy as np
import pytest
from small_runs import SMALL

from wsl._scores import scores
from wsl.cli import main
from wsl.zoo import Zoo

pytestmark = pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")


def test_the_whole_way(zoo_path, folder, capsys):
    model = [
        "--model",
        "GeneralizationPrediction",
        *SMALL,
        "--data",
        "ZooDataModule",
        "--data.label",
        "score",
    ]
    run = ["--name", "a", "--monitor", "val/tau", "--trainer.max_epochs", "3"]
    assert main(["fit", *model, "--data.path", zoo_path, *run]) == 0
    assert main(["test", "--name", "a"]) == 0
    assert main(["predict", "--name", "a"]) == 0
    tested = json.loads((folder / "runs/a/test.json").read_text())
    with open(folder / "runs/a/predictions.csv", newline="") as file:
        table = list(csv.DictReader(file))
    zoo = Zoo.open(zoo_path)
    assert [int(row["row"]) for row in table] == zoo.split("test").tolist()
    predicted, labels = (np.array([float(row[name]) for row in table]) for name in ("prediction", "label"))
    assert np.allclose(labels, zoo.metadata["score"][zoo.split("test")])
    assert scores(predicted, labels)["tau"] == pytest.approx(tested["test/tau"], abs=1e-5)
    capsys.readouterr()
    assert main(["report", "runs/a"]) == 0
    printed = capsys.readouterr().out
    assert "test/tau" in printed
    for name in ("training_curves.png", "predictions.png", "breakdown.csv"):
        assert (folder / "runs/a/figures" / name).stat().st_size > 0 and name in printed
    with open(folder / "runs/a/figures/breakdown.csv", newline="") as file:
        assert {"column", "group", "networks", "tau"} <= set(csv.DictReader(file).fieldnames)


def test_out_of_distribution_splits(zoo_path, folder):
    model = [
        "--model",
        "GeneralizationPrediction",
        *SMALL,
        "--data",
        "ZooDataModule",
        "--data.label",
        "score",
    ]
    where = ["--data.where", '{"train": "label <= 1", "val": "label <= 1", "test": "label == 2"}']
    run = ["--name", "a", "--monitor", "val/mae", "--mode", "min", "--trainer.max_epochs", "1"]
    assert main(["fit", *model, *where, "--data.path", zoo_path, *run]) == 0
    assert main(["predict", "--name", "a"]) == 0
    with open(folder / "runs/a/predictions.csv", newline="") as file:
        assert {float(row["label"]) for row in csv.DictReader(file)} == {1.0}
