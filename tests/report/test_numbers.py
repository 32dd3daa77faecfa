"""Figures and tables of predicted numbers."""

import csv

import numpy as np
import pytest
from matplotlib.image import imread

from wsl._scores import scores
from wsl.report import (
    NumberPredictions,
    ReportError,
    breakdown,
    calibration,
    plot_numbers,
    read_number_predictions,
    write_breakdown,
)


def drawn(count=80):
    generator = np.random.default_rng(0)
    labels = generator.uniform(size=count)
    return NumberPredictions(np.arange(count), labels, labels + 0.1 * generator.normal(size=count))


def test_predictions_are_read_back(tmp_path):
    found = drawn()
    lines = [
        f"{r},{float(t)!r},{float(p)!r}"
        for r, t, p in zip(found.rows, found.labels, found.predicted, strict=True)
    ]
    (tmp_path / "predictions.csv").write_text("row,label,prediction\n" + "\n".join(lines) + "\n")
    read = read_number_predictions(tmp_path)
    for name in ("rows", "labels", "predicted"):
        np.testing.assert_array_equal(getattr(read, name), getattr(found, name))


def test_what_tells_of_classes_is_not_read_as_numbers(tmp_path):
    assert read_number_predictions(tmp_path) is None
    (tmp_path / "predictions.csv").write_text("row,label,prediction,p0,p1\n0,1,1,0.2,0.8\n")
    assert read_number_predictions(tmp_path) is None


@pytest.mark.parametrize("line", ["0,0.5,nan", "0,half,0.5", "0,0.5"])
def test_tables_that_are_no_numbers_are_refused(tmp_path, line):
    (tmp_path / "predictions.csv").write_text(f"row,label,prediction\n{line}\n")
    with pytest.raises(ReportError, match="do not read as such|not all finite"):
        read_number_predictions(tmp_path)


def test_calibration_has_the_means_of_tenths():
    found = drawn()
    points = calibration(found)
    order = np.argsort(found.predicted)
    assert points.shape == (10, 2)
    np.testing.assert_allclose(points[0], [found.predicted[order[:8]].mean(), found.labels[order[:8]].mean()])
    np.testing.assert_allclose(points.mean(0), [found.predicted.mean(), found.labels.mean()])


def test_breakdown_scores_each_group_by_itself(tmp_path):
    found = drawn()
    columns = {
        "activation": np.array(["relu", "tanh"])[np.arange(80) % 2],
        "rate": np.linspace(0, 1, 80),
        "name": np.array([f"n{i}" for i in range(80)]),
        "constant": np.ones(80),
        "rare": np.array([1] * 75 + [2] * 5),
    }
    entries = breakdown(found, columns)
    assert [(entry["column"], entry["group"], entry["networks"]) for entry in entries] == [
        ("activation", "relu", 40),
        ("activation", "tanh", 40),
        ("rate", "0 to 0.241", 20),
        ("rate", "0.253 to 0.494", 20),
        ("rate", "0.506 to 0.747", 20),
        ("rate", "0.759 to 1", 20),
        ("rare", "1", 75),
    ]
    tanh = np.arange(80) % 2 == 1
    expected = scores(found.predicted[tanh], found.labels[tanh])
    assert {name: entries[1][name] for name in expected} == expected
    path = write_breakdown(entries, tmp_path / "breakdown.csv")
    with open(path, newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 7 and float(table[1]["tau"]) == pytest.approx(expected["tau"], rel=1e-3)


def test_the_figure_shows_every_run(tmp_path):
    sizes = []
    for count in (1, 2):
        path = plot_numbers({f"run {i}": drawn() for i in range(count)}, tmp_path / f"{count}.png")
        sizes.append(imread(path).shape[:2])
    assert sizes[0][0] == sizes[1][0] and sizes[1][1] == 2 * sizes[0][1]
