"""Linear probes: they find what is linear in embeddings, and nothing where there is nothing."""

import numpy as np
import pytest

from wsl.tasks import TaskError
from wsl.tasks.embeddings import Embeddings
from wsl.tasks.linear_probe import probe_classes, probe_numbers

SIZES = {"train": 240, "val": 80, "test": 80}


def embeddings(seed=0, features=6):
    generator = np.random.default_rng(seed)
    splits = np.repeat(list(SIZES), list(SIZES.values()))
    count = len(splits)
    scales = 10.0 ** np.arange(features) / 1e3
    vectors = (generator.normal(size=(count, features)) * scales + 7 * scales).astype(np.float32)
    return Embeddings(np.arange(count), splits, vectors)


def test_classes_that_are_linear_whatever_the_features_units():
    found = embeddings()
    labels = (found.standardised() @ np.ones(6) > 0).astype(np.int64)
    probed = probe_classes(found, labels)
    assert probed["test/accuracy"] > 0.9 and probed["val/accuracy"] > 0.9
    common = np.bincount(labels[found.splits == "train"]).argmax()
    assert probed["test/chance"] == (labels[found.splits == "test"] == common).mean()


def test_labels_of_chance_are_not_predicted():
    found, generator = embeddings(), np.random.default_rng(1)
    probed = probe_classes(found, generator.integers(2, size=len(found.rows)))
    assert probed["test/accuracy"] < 0.65
    numbers = probe_numbers(found, generator.normal(size=len(found.rows)))
    assert numbers["test/r2"] < 0.1 and abs(numbers["test/tau"]) < 0.25


def test_numbers_that_are_linear():
    found = embeddings()
    probed = probe_numbers(found, found.standardised() @ np.arange(6) + 100)
    assert probed["test/r2"] > 0.999 and probed["test/tau"] > 0.98 and probed["strength"] < 1


def test_the_test_split_chooses_nothing():
    found = embeddings()
    labels = (found.standardised()[:, 0] > 0).astype(np.int64)
    changed = np.where(found.splits == "test", 1 - labels, labels)
    one, other = probe_classes(found, labels), probe_classes(found, changed)
    assert other["test/accuracy"] == pytest.approx(1 - one["test/accuracy"])
    assert other["val/accuracy"] == one["val/accuracy"]
    assert other["inverse_strength"] == one["inverse_strength"]


def test_labels_that_cannot_be_probed():
    found = embeddings()
    with pytest.raises(TaskError, match="all 240 networks of the train split have the label 1"):
        probe_classes(found, np.ones(400, dtype=np.int64))
    with pytest.raises(TaskError, match="no whole numbers"):
        probe_classes(found, np.full(400, 0.5))
    with pytest.raises(TaskError, match="not finite for 2 of 400"):
        probe_numbers(found, np.where(np.arange(400) < 2, np.nan, 1.0))
    broken = Embeddings(found.rows, found.splits, np.where(found.vectors > 0, np.inf, 0).astype(np.float32))
    with pytest.raises(TaskError, match="not all finite"):
        probe_numbers(broken, np.arange(400.0))
