"""Rows of small files come through a memory map, those of large files by reads: both give the same."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_zoos import build_zoo, flat, mixed_matrices, mixed_zoo, row_weights

import wsl.zoo._map
from wsl.zoo import Zoo, ZooError, iter_rows

ROWS = 20


@pytest.fixture(scope="module", params=[0, 1 << 20], ids=["reads", "map"])
def zoo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    zoo = mixed_zoo(tmp_path_factory.mktemp("zoo") / "mixed.h5", ROWS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wsl.zoo._map, "_MAPPED_BYTES", request.param)
        assert (zoo.opened()[1]._map is None) == (request.param == 0)
    return zoo


@given(rows=st.lists(st.integers(-13, 12), max_size=30), start=st.integers(0, 12), size=st.integers(0, 12))
def test_any_rows_in_any_order(zoo: Zoo, rows: list[int], start: int, size: int) -> None:
    view, expected = zoo.architectures["small"], mixed_matrices(ROWS)["small"]
    assert len(expected) == 14
    for wanted in (rows, [*range(start, min(start + size, 14)), *rows]):
        found = view.matrix(wanted)
        np.testing.assert_array_equal(found, expected[np.array(wanted, dtype=int)])
        found[:] = 7
    np.testing.assert_array_equal(view.matrix(), expected)


@given(st.slices(14))
def test_slices(zoo: Zoo, rows: slice) -> None:
    np.testing.assert_array_equal(
        zoo.architectures["small"].matrix(rows), mixed_matrices(ROWS)["small"][rows]
    )


def test_reads_that_return_less_than_asked_for(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, views, place: read(fd, [views[0][:5]], place))
    np.testing.assert_array_equal(
        zoo.architectures["wide"].matrix([3, 4, 0]), mixed_matrices(ROWS)["wide"][[3, 4, 0]]
    )


def test_half_precision_and_pickles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wsl.zoo._map, "_MAPPED_BYTES", 0)
    zoo = pickle.loads(pickle.dumps(build_zoo(tmp_path / "half.h5", 16, dtype="float16")))
    assert torch.equal(flat(zoo.weights([9, 4])), flat(row_weights(range(16)))[[9, 4]].half().float())


@pytest.mark.parametrize("change", ["removed", "cut", "replaced", "touched"])
def test_a_large_file_that_changes_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(wsl.zoo._map, "_MAPPED_BYTES", 0)
    zoo = build_zoo(tmp_path / "z.h5")
    zoo.weights([0])
    if change == "removed":
        zoo.path.unlink()
    elif change == "cut":
        os.truncate(zoo.path, 5000)
    elif change == "replaced":
        other = build_zoo(tmp_path / "other.h5")
        os.replace(other.path, zoo.path)
    else:
        os.utime(zoo.path, (0, 0))
    with pytest.raises(ZooError, match="was moved, replaced or cut while in use"):
        zoo.weights([0])


def test_a_mapped_file_that_is_cut_is_refused(tmp_path: Path) -> None:
    zoo = build_zoo(tmp_path / "z.h5")
    zoo.weights([0])
    os.truncate(zoo.path, 100)
    with pytest.raises(ZooError, match="was moved, replaced or cut while in use"):
        zoo.weights([15])


def test_a_file_that_is_cut_during_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wsl.zoo._map, "_MAPPED_BYTES", 0)
    zoo = build_zoo(tmp_path / "z.h5")
    monkeypatch.setattr(os, "preadv", lambda *_: 0)
    with pytest.raises(ZooError, match="it ends early"):
        list(iter_rows(zoo))
