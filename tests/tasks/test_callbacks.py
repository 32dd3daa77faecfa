"""What runs write: tables of predictions in the order of the rows, and whole files only."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from wsl._files import write_text
from wsl.tasks.callbacks import PictureLog, PredictionTable


def part(rows, embeddings=True):
    rows = torch.tensor(rows)
    probabilities = torch.nn.functional.one_hot(rows % 3, 3).float()
    found = {"rows": rows, "labels": rows % 2, "probabilities": probabilities}
    return {**found, "embeddings": rows[:, None].float()} if embeddings else found


@pytest.mark.parametrize("embeddings", [True, False])
def test_tables_are_ordered_by_row(tmp_path, embeddings):
    table = PredictionTable(str(tmp_path / "run"))
    for _ in range(2):  # predicting again starts anew
        table.on_predict_start(None, None)
        for rows in ([7, 2], [4, 9]):
            table.on_predict_batch_end(None, None, part(rows, embeddings), None, 0)
        table.on_predict_end(None, None)
    with open(tmp_path / "run" / "predictions.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [int(line["row"]) for line in lines] == [2, 4, 7, 9]
    assert [int(line["prediction"]) for line in lines] == [2, 1, 1, 0]
    assert [line["p1"] for line in lines] == ["0", "1", "1", "0"]
    stored = tmp_path / "run" / "embeddings.npy"
    assert stored.exists() == embeddings
    if embeddings:
        assert np.load(stored)[:, 0].tolist() == [2, 4, 7, 9]


def test_embeddings_alone_come_with_their_rows(tmp_path):
    table = PredictionTable(str(tmp_path))
    table.on_predict_start(None, None)
    found = part([7, 2])
    del found["probabilities"]
    table.on_predict_batch_end(None, None, found, None, 0)
    table.on_predict_end(None, None)
    assert (tmp_path / "embeddings.csv").read_text().split() == ["row,label", "2,0", "7,1"]
    assert np.load(tmp_path / "embeddings.npy")[:, 0].tolist() == [2, 7]
    assert not (tmp_path / "predictions.csv").exists()


def test_nothing_predicted_writes_nothing(tmp_path):
    table = PredictionTable(str(tmp_path / "run"))
    table.on_predict_start(None, None)
    table.on_predict_end(None, None)
    assert not (tmp_path / "run").exists()


def test_pictures_say_what_their_rows_are(tmp_path):
    trainer = SimpleNamespace(
        sanity_checking=False, is_global_zero=True, state=SimpleNamespace(fn="fit"), loggers=[], global_step=1
    )
    pictures = (torch.zeros(3, 4, 5), torch.ones(3, 4, 5))
    task = SimpleNamespace(pictures=pictures, picture_rows=("given", "decoded"))
    PictureLog(str(tmp_path / "run")).on_validation_end(trainer, task)
    with Image.open(tmp_path / "run" / "pictures.png") as image:
        assert image.info["rows"] == "given, decoded"
        assert image.size == (3 * (5 + 2) * 3, 2 * (4 + 2) * 3)
        grid = np.asarray(image)
    assert grid[3:15, 3:18].max() == 0 and grid[21:33, 3:18].min() == 255, "the second row is below the first"


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "new" / "a.json"
    write_text(path, "one")

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("wsl._files.os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "two")
    assert path.read_text() == "one"
