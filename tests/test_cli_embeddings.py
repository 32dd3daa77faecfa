"""Embeddings by the command line: written for all splits, probed, searched, and made anew when needed."""

import csv
import json

import numpy as np
import pytest
import tiny_zoo
from small_runs import SMALL, fit

from wsl.cli import main
from wsl.tasks.own_network import load_task
from wsl.zoo import Zoo

pytestmark = pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")
SPLITS = ("train", "val", "test")


def lines(text):
    return dict(line.split() for line in text.splitlines())


@pytest.fixture(scope="module")
def runs(zoo_path, tmp_path_factory):
    """A folder with the runs ``a``, a classification, and ``c``, a contrastive one."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("WANDB_MODE", "disabled")
        fast = ["--model.optimizer", "torch.optim.AdamW", "--model.optimizer.lr", "0.02"]
        assert fit(zoo_path, *fast, epochs=10) == 0
        views = '[{"class_path": "wsl.augment.RotateInputs"}, {"class_path": "wsl.augment.FlipSigns"}]'
        task = ["--model", "ContrastiveEmbedding", *SMALL, "--model.augmentations", views]
        run = ["--name", "c", "--monitor", "val/loss", "--mode", "min", "--trainer.max_epochs", "1"]
        data = ["--data", "ZooDataModule", "--data.path", zoo_path]
        assert main(["fit", *task, *data, *run]) == 0
    return folder


@pytest.fixture
def inside(runs, monkeypatch):
    monkeypatch.chdir(runs)
    return runs


def test_embeddings_of_all_splits(inside, zoo_path, capsys):
    assert main(["embed", "--name", "c"]) == 0
    vectors = np.load("runs/c/embeddings/embeddings.npy")
    assert capsys.readouterr().out == f"runs/c/embeddings  {len(vectors)} x {vectors.shape[1]}\n"
    with open("runs/c/embeddings/rows.csv", newline="") as file:
        table = list(csv.DictReader(file))
    zoo, task = Zoo.open(zoo_path), load_task(inside / "runs/c/checkpoints/best.ckpt")
    for split in SPLITS:
        rows = [int(line["row"]) for line in table if line["split"] == split]
        assert rows == zoo.split(split).tolist()
    rows = [int(line["row"]) for line in table]
    np.testing.assert_allclose(vectors, task.embed(zoo.weights(rows)).detach().numpy(), atol=1e-5)


def test_contrastive_runs_are_predicted(inside, zoo_path):
    assert main(["predict", "--name", "c"]) == 0
    with open("runs/c/embeddings.csv", newline="") as file:
        rows = [int(line["row"]) for line in csv.DictReader(file)]
    assert rows == Zoo.open(zoo_path).split("test").tolist()
    assert len(np.load("runs/c/embeddings.npy")) == len(rows)


def test_probes_of_classes_and_numbers(inside, capsys):
    assert main(["probe", "--name", "a"]) == 0
    classes = lines(capsys.readouterr().out)
    assert float(classes["test/accuracy"]) > float(classes["test/chance"]) + 0.2
    assert main(["probe", "--name", "a", "--label", "score"]) == 0
    numbers = lines(capsys.readouterr().out)
    assert float(numbers["test/r2"]) > 0.5
    kept = json.loads((inside / "runs/a/embeddings/probe.json").read_text())
    assert kept["label"]["test/accuracy"] == pytest.approx(float(classes["test/accuracy"]), rel=1e-3)
    assert kept["score"].keys() == numbers.keys()
    assert main(["probe", "--name", "a", "--kind", "numbers"]) == 0
    assert "test/tau" in lines(capsys.readouterr().out)


def test_untrained_models_are_the_runs_before_its_first_step(inside, zoo_path, capsys):
    still = ["--model.optimizer", "torch.optim.SGD", "--model.optimizer.lr", "0.0"]
    assert fit(zoo_path, *still, name="still", epochs=1) == 0
    for options in ([], ["--untrained"]):
        assert main(["embed", "--name", "still", *options]) == 0
    trained, untrained = (
        np.load(f"runs/still/{name}/embeddings.npy") for name in ("embeddings", "embeddings_untrained")
    )
    np.testing.assert_array_equal(trained, untrained)
    assert main(["probe", "--name", "a", "--untrained"]) == 0
    assert (inside / "runs/a/embeddings_untrained/probe.json").is_file()


def test_neighbours(inside, zoo_path, capsys):
    row = int(Zoo.open(zoo_path).split("test")[3])
    assert main(["neighbours", "--name", "a", "--row", str(row), "--count", "4"]) == 0
    header, own, *others = (line.split() for line in capsys.readouterr().out.splitlines())
    assert {"row", "cosine", "split", "label", "image"} <= set(header) and len(others) == 4
    assert own[:3] == [str(row), "1", "test"]
    cosines = [float(line[1]) for line in others]
    assert cosines == sorted(cosines, reverse=True) and str(row) not in [line[0] for line in others]
    zoo = Zoo.open(zoo_path)
    for line in others:
        assert int(line[header.index("label")]) == zoo.metadata["label"][int(line[0])]


def test_embeddings_are_kept_until_the_model_or_the_zoo_changes(inside, tmp_path, monkeypatch, zoo_path):
    assert main(["probe", "--name", "a"]) == 0
    with monkeypatch.context() as patch:
        patch.setattr("wsl.cli.embeddings.embed_splits", lambda *_: pytest.fail("they are there already"))
        assert main(["neighbours", "--name", "a", "--row", "0"]) == 0
    other = str(tiny_zoo.build(tmp_path / "other.h5", images=30, seed=1).path)
    assert main(["embed", "--name", "a", "--zoo", other]) == 0
    assert len(np.load("runs/a/embeddings/embeddings.npy")) == 60
    assert not (inside / "runs/a/embeddings/probe.json").exists(), "they were of other embeddings"
    assert main(["embed", "--name", "a"]) == 0
    assert len(np.load("runs/a/embeddings/embeddings.npy")) == 120


@pytest.mark.slow
def test_several_zoos(inside, tmp_path, zoo_path, capsys):
    other = str(tiny_zoo.build(tmp_path / "other.h5", images=20, hidden=(4, 7)).path)
    assert fit(f"[{zoo_path}, {other}]", name="mixed", epochs=1) == 0
    capsys.readouterr()
    assert main(["neighbours", "--name", "mixed", "--row", "125", "--count", "3"]) == 0
    header, own, *_ = (line.split() for line in capsys.readouterr().out.splitlines())
    assert own[header.index("image")] == str(Zoo.open(other).metadata["image"][5])


def test_a_limit_takes_batches_that_lie_evenly_spread(inside, capsys):
    assert main(["embed", "--name", "a", "--limit", "20"]) == 0
    with open("runs/a/embeddings/rows.csv", newline="") as file:
        few = [(int(line["row"]), line["split"]) for line in csv.DictReader(file)]
    assert main(["embed", "--name", "a"]) == 0, "the limit is a part of what the stored ones were made from"
    with open("runs/a/embeddings/rows.csv", newline="") as file:
        every = [(int(line["row"]), line["split"]) for line in csv.DictReader(file)]
    for split, batches in (("train", [0, 4]), ("val", [0]), ("test", [0])):
        rows, chosen = ([row for row, own in table if own == split] for table in (every, few))
        assert chosen == [row for i in batches for row in rows[16 * i : 16 * (i + 1)]]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["probe", "--name", "b"], "there is no run 'b' in runs"),
        (["probe", "--name", "a", "--label", "colour"], "Name one of them with --label"),
        (["probe", "--name", "a", "--limit", "0"], "limit is 0; expected at least 1"),
        (["probe", "--name", "a", "--label", "score", "--kind", "classes"], "Predict it with --kind numbers"),
        (
            ["neighbours", "--name", "a", "--row", "777"],
            "row is 777 and count 5; expected one of the 120 rows",
        ),
        (["neighbours", "--name", "a", "--row", "1", "--count", "0"], "count 0"),
        (["embed", "--name", "a", "--zoo", "nowhere.h5"], "nowhere.h5"),
        (["embed", "--name", "e", "--untrained"], "INREditing predicts nothing of a network by itself"),
        (["embed", "--name", "e"], "there is no checkpoint"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_does_not_fit_is_said(inside, zoo_path, capsys, command, message):
    config = (inside / "runs/a/config.yaml").read_text().replace("INRClassification", "INREditing")
    (inside / "runs/e").mkdir(exist_ok=True)
    (inside / "runs/e/config.yaml").write_text(config.replace("label_smoothing", "scale"))
    capsys.readouterr()
    assert main(command) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("content", ["data: {", "text", "data: 1"])
def test_configurations_that_are_none(folder, capsys, content):
    (folder / "runs/a").mkdir(parents=True)
    (folder / "runs/a/config.yaml").write_text(content)
    assert main(["probe", "--name", "a"]) == 2
    assert "config.yaml" in capsys.readouterr().err
