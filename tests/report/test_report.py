"""Figures and tables from small files written here."""

import json

import numpy as np
import pytest
from PIL import Image

from wsl.report import (
    EncoderResult,
    ReportError,
    Study,
    format_study,
    learning_curves,
    plot_confusion,
    plot_curves,
    plot_embeddings,
    plot_renderings,
    read_predictions,
    write_study,
)

HEADER = "epoch,step,train/loss,val/accuracy\n"


def log(run, version, text):
    folder = run / "metrics" / f"version_{version}"
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text(text)


def predict(run, rows, labels, predicted, embeddings=None):
    lines = [f"{r},{a},{b},0.5" for r, a, b in zip(rows, labels, predicted, strict=True)]
    (run / "predictions.csv").write_text("row,label,prediction,p0\n" + "\n".join(lines) + "\n")
    if embeddings is not None:
        np.save(run / "embeddings.npy", embeddings)


def test_curves_of_a_resumed_run(tmp_path):
    log(tmp_path, 0, HEADER + "0,4,,.1\n0,4,2.0,\n1,9,,.2\n1,9,1.5,\n2,14,,.9\n")
    log(tmp_path, 10, HEADER + "2,14,,.3\n2,14,1.0,\n3,19,,.4\n")
    curves = learning_curves(tmp_path)
    assert curves.keys() == {"train/loss", "val/accuracy"}
    assert curves["val/accuracy"][0].tolist() == [1, 2, 3, 4]
    assert curves["val/accuracy"][1].tolist() == [0.1, 0.2, 0.3, 0.4], "the later file counts"
    assert curves["train/loss"][0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("text", ["", "epoch,step,val/loss\nx,1,2\n", "step,val/loss\n1,2\n"])
def test_damaged_metrics(tmp_path, text):
    log(tmp_path, 0, text)
    if text:
        with pytest.raises(ReportError, match="does not read as a table of metrics"):
            learning_curves(tmp_path)
    else:
        assert learning_curves(tmp_path) == {}


def test_nothing_to_report(tmp_path):
    with pytest.raises(ReportError, match="python -m wsl fit"):
        learning_curves(tmp_path)
    with pytest.raises(ReportError, match="python -m wsl predict"):
        read_predictions(tmp_path)


def test_predictions(tmp_path):
    predict(tmp_path, [3, 5, 8, 9], [0, 1, 1, 0], [0, 1, 0, 0], np.ones((4, 2)))
    found = read_predictions(tmp_path)
    assert found.rows.tolist() == [3, 5, 8, 9] and found.accuracy == 0.75
    assert found.embeddings.shape == (4, 2)
    np.save(tmp_path / "embeddings.npy", np.ones((3, 2)))
    with pytest.raises(ReportError, match=r"4 predictions, but embeddings of shape \(3, 2\)"):
        read_predictions(tmp_path)
    (tmp_path / "predictions.csv").write_text("row,label\n1,2\n")
    with pytest.raises(ReportError, match="do not read as such"):
        read_predictions(tmp_path)


def picture(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("L"), dtype=float)


def test_figures_show_something(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    points = rng.normal(size=(60, 8)) + 4 * np.eye(8)[labels]
    runs = {}
    for title, noise in (("good", 0.0), ("bad", 0.8)):
        folder = tmp_path / title
        folder.mkdir()
        predicted = np.where(rng.random(60) < noise, rng.integers(0, 3, 60), labels)
        predict(folder, np.arange(60), labels, predicted, points)
        runs[title] = read_predictions(folder)
    curves = {"good": {"train/loss": (np.array([1, 2]), np.array([2.0, 1.0]))}}
    made = [
        plot_confusion(runs, ["a", "b", "c"], tmp_path / "figures" / "confusion.png"),
        plot_embeddings(runs, ["a", "b", "c"], tmp_path / "figures" / "embeddings.png"),
        plot_curves(curves, tmp_path / "figures" / "curves.png", chance=1 / 3),
        plot_renderings(
            rng.random((5, 6, 6)), rng.random((5, 6, 6)), list("abcde"), tmp_path / "r.png", columns=3
        ),
        plot_renderings(rng.random((2, 6, 6, 3)), rng.random((2, 6, 6, 3)), list("ab"), tmp_path / "c.png"),
    ]
    for path in made:
        assert picture(path).std() > 5 and min(picture(path).shape) > 100, path


def test_figures_repeat(tmp_path):
    predict(
        tmp_path,
        np.arange(30),
        np.arange(30) % 2,
        np.arange(30) % 2,
        np.random.default_rng(0).random((30, 5)),
    )
    runs = {"a": read_predictions(tmp_path)}
    first = plot_embeddings(runs, ["x", "y"], tmp_path / "1.png")
    assert (picture(first) == picture(plot_embeddings(runs, ["x", "y"], tmp_path / "2.png"))).all()


@pytest.mark.parametrize(
    "embeddings",
    [np.ones((1, 5)), np.ones((40, 5)), np.eye(3, 5), np.random.default_rng(0).random((40, 1))],
    ids=["one", "all the same", "three", "one feature"],
)
def test_embeddings_of_few_or_equal_points(tmp_path, embeddings):
    rows = np.arange(len(embeddings))
    predict(tmp_path, rows, rows % 2, rows % 2, embeddings)
    runs = {"a": read_predictions(tmp_path)}
    assert picture(plot_embeddings(runs, ["x", "y"], tmp_path / "e.png")).std() > 5


@pytest.mark.parametrize(
    ("labels", "embeddings", "said"),
    [
        ([0, 1], np.array([[0.0], [np.nan]]), "not all finite: training diverged"),
        ([0, 1], np.zeros(2), r"embeddings of shape \(2,\)"),
        ([0, -1], None, "classes from -1"),
        ([0, 10**12], None, "classes from 0 to 1000000000000"),
    ],
)
def test_predictions_that_cannot_be_drawn(tmp_path, labels, embeddings, said):
    predict(tmp_path, [0, 1], labels, [0, 0], embeddings)
    with pytest.raises(ReportError, match=said):
        read_predictions(tmp_path)


def test_embeddings_are_needed_for_their_figure(tmp_path):
    predict(tmp_path, [1], [0], [0])
    with pytest.raises(ReportError, match="no embeddings"):
        plot_embeddings({"a": read_predictions(tmp_path)}, ["x"], tmp_path / "e.png")


def test_a_study_on_one_screen(tmp_path):
    results = [
        EncoderResult("graph metanetwork", 0.91, np.linspace(0.1, 0.9, 12), 60.0),
        EncoderResult("flat MLP", 0.11, np.array([0.1]), 5.0),
    ]
    study = Study(
        7188, 1797, 1436, 38.2, 40.9, 0.101, results, {"zoo": 30.0, "probes": 60.4}, "runs/x/figures"
    )
    text = format_study(study)
    for shown in (
        "38.2 dB",
        "40.9 dB",
        "91.0%",
        "11.0%",
        "largest class",
        "1: 10%",
        "12: 90%",
        "zoo 30 s",
        "runs/x/figures",
    ):
        assert shown in text, shown
    assert len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 120
    assert write_study(study, tmp_path) == text == (tmp_path / "summary.txt").read_text()
    record = json.loads((tmp_path / "summary.json").read_text())
    assert record["encoders"][0]["accuracy"] == 0.91 and record["held_out"] == 1436
