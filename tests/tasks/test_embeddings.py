"""Embeddings as files, and the nearest ones."""

import numpy as np
import pytest

from wsl.tasks import TaskError
from wsl.tasks.embeddings import Embeddings, nearest, read_embeddings, write_embeddings

SPLITS = np.array(["train"] * 6 + ["val"] * 2 + ["test"] * 2)


def some(vectors=None):
    generator = np.random.default_rng(0)
    rows = generator.permutation(20)[:10]
    given = generator.normal(size=(10, 4)) if vectors is None else vectors
    return Embeddings(rows, SPLITS, given.astype(np.float32))


def test_what_is_written_is_read_again(tmp_path):
    found, source = some(), {"zoo": "abc", "where": None}
    assert read_embeddings(tmp_path, source) is None
    write_embeddings(found, tmp_path, source)
    again = read_embeddings(tmp_path, source)
    for name in ("rows", "splits", "vectors"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))


@pytest.mark.parametrize("fault", ["source", "cut", "missing"])
def test_what_is_of_another_source_or_damaged_counts_as_missing(tmp_path, fault):
    write_embeddings(some(), tmp_path, {"zoo": "abc"})
    if fault == "cut":
        content = (tmp_path / "embeddings.npy").read_bytes()
        (tmp_path / "embeddings.npy").write_bytes(content[:-9])
    elif fault == "missing":
        (tmp_path / "rows.csv").unlink()
    assert read_embeddings(tmp_path, {"zoo": "abd" if fault == "source" else "abc"}) is None


def test_an_interrupted_writer_leaves_nothing_that_counts(tmp_path, monkeypatch):
    write_embeddings(some(), tmp_path, {"zoo": "abc"})

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("wsl.tasks.embeddings.np.save", killed)
    with pytest.raises(KeyboardInterrupt):
        write_embeddings(some(), tmp_path, {"zoo": "abc"})
    assert read_embeddings(tmp_path, {"zoo": "abc"}) is None


def test_the_nearest_by_cosine_of_standardised_vectors():
    vectors = np.random.default_rng(1).normal(3, 1, size=(10, 4))
    vectors[7] = vectors[2] + 1e-3
    found = some(vectors)
    mean, std = found.vectors[:6].mean(0), found.vectors[:6].std(0)
    scaled = (found.vectors - mean) / std
    expected = [
        scaled[2] @ one / np.linalg.norm(one) / np.linalg.norm(scaled[2]) if i != 2 else -2.0
        for i, one in enumerate(scaled)
    ]
    places, cosines = nearest(found, int(found.rows[2]), 3)
    assert places[0] == 7 and places.tolist() == np.argsort(expected)[::-1][:3].tolist()
    np.testing.assert_allclose(cosines, np.sort(expected)[::-1][:3], rtol=1e-5)
    assert len(nearest(found, int(found.rows[2]), 99)[0]) == 9
    moved = some(vectors * [1, 2, 3, 4] + 5)
    np.testing.assert_allclose(nearest(moved, int(moved.rows[2]), 3)[1], cosines, rtol=1e-3)


def test_features_that_never_vary_do_not_count():
    vectors = np.random.default_rng(1).normal(size=(10, 4))
    vectors[:, 1] = 0.5
    assert not some(vectors).standardised()[:, 1].any()


def test_what_cannot_be_searched():
    with pytest.raises(TaskError, match="row is 777 and count 2; expected one of the 10 rows"):
        nearest(some(), 777, 2)
    vectors = np.zeros((10, 4))
    vectors[3, 1] = np.nan
    with pytest.raises(TaskError, match="not all finite"):
        nearest(some(vectors), int(some().rows[0]), 1)
