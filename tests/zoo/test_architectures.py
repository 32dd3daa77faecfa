"""A zoo of several architectures: each is read like a zoo of its own."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_zoos import (
    FORWARD,
    OTHER,
    SPEC,
    build_zoo,
    flat,
    image_splits,
    mixed_matrices,
    mixed_zoo,
    row_metadata,
    row_weights,
)

from wsl.zoo import Architecture, Zoo, ZooError, ZooWriter, render, verify_zoo

ROWS = 17


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return mixed_zoo(tmp_path_factory.mktemp("zoo") / "mixed.h5", ROWS)


def test_each_architecture_is_read_like_a_zoo(zoo: Zoo) -> None:
    assert len(zoo) == ROWS
    assert list(zoo.architectures) == ["small", "wide"]
    small, wide = zoo.architectures.values()
    assert (small.spec, small.forward) == (SPEC, FORWARD)
    assert (wide.spec, wide.forward) == (OTHER.spec, OTHER.forward)
    matrices = mixed_matrices(ROWS)
    for name, view in zoo.architectures.items():
        assert view.name == name
        assert len(view) == len(view.rows) == len(matrices[name])
        np.testing.assert_array_equal(view.matrix(), matrices[name])
        np.testing.assert_array_equal(view.matrix([-1, 2]), matrices[name][[-1, 2]])
        assert torch.equal(flat(view.weights(slice(1, 3))), torch.from_numpy(matrices[name][1:3]))
        np.testing.assert_array_equal(view.hashes, zoo.hashes[view.rows])
        for column in zoo.metadata:
            np.testing.assert_array_equal(view.metadata[column], zoo.metadata[column][view.rows])
    assert wide.rows.tolist() == [2, 5, 8, 11, 14]
    assert list(zoo.metadata) == sorted(row_metadata(range(1)))
    assert verify_zoo(zoo.path).ok


def test_splits_of_an_architecture_count_its_own_rows(zoo: Zoo) -> None:
    for name, split in image_splits(ROWS).items():
        np.testing.assert_array_equal(zoo.split(name), split.indices)
        parts = [view.rows[view.split(name)] for view in zoo.architectures.values()]
        assert sorted(np.concatenate(parts)) == split.indices.tolist()
    with pytest.raises(ZooError, match="no split 'all'"):
        zoo.architectures["wide"].split("all")


def test_rows_of_the_whole_zoo_are_found(zoo: Zoo) -> None:
    rows = [5, 0, 16, -3, 5]
    assert zoo.architecture_of(rows).tolist() == ["wide", "small", "small", "wide", "wide"]
    first, second = zoo.locate(rows)
    assert (first.architecture.name, first.positions.tolist()) == ("small", [1, 2])
    assert (second.architecture.name, second.positions.tolist(), second.rows.tolist()) == (
        "wide",
        [0, 3, 4],
        [1, 4, 1],
    )
    for part in (first, second):
        assert part.architecture.rows[part.rows].tolist() == [rows[i] % ROWS for i in part.positions]
    (only,) = zoo.locate([2])
    assert only.architecture.name == "wide"
    assert zoo.locate([]) == []
    assert sum(len(part.rows) for part in zoo.locate()) == ROWS
    with pytest.raises(ZooError, match="Row 17 does not exist"):
        zoo.locate([ROWS])


@pytest.mark.parametrize("wanted", ["spec", "forward", "parameters", "weights", "matrix"])
def test_what_has_no_meaning_over_all_says_what_to_use(zoo: Zoo, wanted: str) -> None:
    with pytest.raises(ZooError, match=r"holds 2 architectures \(small, wide\).*zoo.architectures\[name\]"):
        value = getattr(zoo, wanted)
        value([0])


def test_a_zoo_of_one_architecture_is_its_only_view(tmp_path: Path) -> None:
    zoo = build_zoo(tmp_path / "one.h5")
    (view,) = zoo.architectures.values()
    assert view.name == "Siren"
    assert view.spec == zoo.spec
    assert np.array_equal(view.matrix([3]), zoo.matrix([3]))
    assert set(zoo.architecture_of()) == {"Siren"}
    (part,) = zoo.locate([3, 1])
    assert (part.positions.tolist(), part.rows.tolist()) == ([0, 1], [3, 1])
    assert np.array_equal(view.split("val"), zoo.split("val"))


def test_views_pickle_as_their_zoo_does(zoo: Zoo) -> None:
    text = pickle.dumps(zoo.architectures["wide"])
    assert len(text) < 1000
    assert np.array_equal(pickle.loads(text).matrix(), zoo.architectures["wide"].matrix())


def test_missing_columns_are_named(zoo: Zoo) -> None:
    with pytest.raises(
        ZooError, match=r"no metadata column 'labels': .*mixed.h5 has image, label, psnr, title"
    ):
        zoo.metadata["labels"]
    assert "labels" not in zoo.metadata
    assert zoo.metadata.get("labels") is None


def test_networks_of_several_architectures_are_rendered(zoo: Zoo) -> None:
    images = render(zoo, [5, 0, 2], batch=1)
    assert images.shape == (3, 4, 3)
    small, wide = zoo.architectures.values()
    assert torch.equal(images[1], render(small, [0])[0])
    assert torch.equal(images[[2, 0]], render(wide, slice(0, 2)))
    assert render(zoo, []).shape == (0, 4, 3)
    assert render(zoo).shape == (ROWS, 4, 3)


def test_images_of_several_shapes_are_not_rendered_together(tmp_path: Path) -> None:
    with ZooWriter(tmp_path / "z.h5", provenance={}) as writer:
        for name, grid in (("a", (4, 3)), ("b", (4, 4))):
            writer.add(Architecture(name, SPEC, replace(FORWARD, grid=grid)))
            writer.append(name, row_weights(range(2)), {})
        zoo = writer.finish()
    with pytest.raises(ZooError, match=r"several shapes: {'a': \(4, 3\), 'b': \(4, 4\)}"):
        render(zoo)
    assert render(zoo, [1]).shape == (1, 4, 3)
    assert render(zoo.architectures["b"]).shape == (2, 4, 4)


@settings(max_examples=150)
@given(data=st.data())
def test_damaged_anywhere(zoo: Zoo, data: st.DataObject) -> None:
    content = bytearray(zoo.path.read_bytes())
    start = data.draw(st.integers(0, len(content) - 8))
    for position in range(start, start + data.draw(st.integers(1, 8))):
        content[position] = data.draw(st.integers(0, 255))
    scratch = zoo.path.with_name("bad.h5")
    scratch.write_bytes(content)
    try:
        damaged = Zoo.open(scratch)
        failed = verify_zoo(scratch).failed
    except ZooError as err:
        assert str(scratch) in str(err)
        return
    wrong = []
    for name, view in zoo.architectures.items():
        other = damaged.architectures[name].matrix().view("u4")
        wrong += view.rows[(other != view.matrix().view("u4")).any(axis=1)].tolist()
    assert failed == sorted(wrong), "exactly the damaged rows are named"
    assert damaged.fingerprint == zoo.fingerprint, "everything else is as it was"


def test_a_network_of_a_zoo_runs_as_its_module(zoo_path: str) -> None:
    zoo = Zoo.open(zoo_path)
    network, weights = zoo.network(7), zoo.weights([7])
    state = network.state_dict()
    assert state.keys() == weights.keys() and not network.training
    assert all(torch.equal(state[name], tensor[0]) for name, tensor in weights.items())
    points = zoo.forward.points()
    shown = zoo.forward.signal(network(points)).clamp(0, 1).reshape(zoo.forward.grid)
    torch.testing.assert_close(shown, render(zoo, [7])[0])
    with pytest.raises(ZooError):
        zoo.network(len(zoo))
