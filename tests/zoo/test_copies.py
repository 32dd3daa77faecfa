"""Subsets, merged zoos and zoos with other splits."""

import errno
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killed_builds import start, was_killed
from small_zoos import FORWARD, SPEC, build_zoo, flat, mixed_zoo, row_metadata, row_weights

import wsl.zoo._copies
from wsl.zoo import (
    Architecture,
    Split,
    Zoo,
    ZooError,
    ZooWriter,
    merge_zoos,
    split_zoo,
    subset_zoo,
    verify_zoo,
)

ROWS = 20


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return mixed_zoo(tmp_path_factory.mktemp("zoo") / "mixed.h5", ROWS)


def assert_same_rows(found: Zoo, rows: Any, source: Zoo, source_rows: Any) -> None:
    """Weights, hashes, architecture and metadata of rows of two zoos are the same."""
    for row, other in zip(rows, source_rows, strict=True):
        ((view, _, place),), ((view_b, _, place_b),) = found.locate([row]), source.locate([other])
        assert (view.spec, view.forward) == (view_b.spec, view_b.forward)
        np.testing.assert_array_equal(view.matrix(place), view_b.matrix(place_b))
        np.testing.assert_array_equal(found.hashes[row], source.hashes[other])
        for name in found.metadata:
            np.testing.assert_array_equal(found.metadata[name][row], source.metadata[name][other])


def plain(out: Path, rows: range, splits: dict[str, Split] | None = None, **columns: Any) -> Zoo:
    """Rows of the small zoo with the given columns."""
    with ZooWriter(out, provenance={"out": out.name}) as writer:
        writer.add(Architecture("net", SPEC, FORWARD))
        writer.append("net", row_weights(rows), columns)
        return writer.finish(splits)


@pytest.mark.parametrize("rows", [None, [3, 2, 9, 14, -1], slice(4, 15)])
def test_a_subset_holds_its_rows_in_order(mixed: Zoo, tmp_path: Path, rows: Any) -> None:
    zoo = subset_zoo(mixed, tmp_path / "some.h5", rows, condition="label != 1")
    taken = np.intersect1d(
        np.arange(ROWS)[rows if rows is not None else slice(None)], mixed.where("label != 1")
    )
    assert_same_rows(zoo, range(len(zoo)), mixed, taken)
    for name, split in zoo.splits.items():
        assert taken[split.indices].tolist() == np.intersect1d(taken, mixed.split(name)).tolist()
        assert split.recipe == mixed.splits[name].recipe
    assert verify_zoo(zoo.path).ok
    assert zoo.provenance["where"] == "label != 1"
    assert zoo.provenance["sources"][0]["fingerprint"] == mixed.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["some.h5"]


def test_architectures_and_splits_without_rows_are_left_out(mixed: Zoo, tmp_path: Path) -> None:
    wide = subset_zoo(mixed, tmp_path / "wide.h5", condition="architecture == 'wide'")
    assert list(wide.architectures) == ["wide"]
    assert wide.spec == mixed.architectures["wide"].spec
    one = subset_zoo(mixed, tmp_path / "one.h5", mixed.split("val")[:1])
    assert list(one.splits) == ["val"]
    with pytest.raises(ZooError, match="None of the 20 rows"):
        subset_zoo(mixed, tmp_path / "none.h5", condition="label > 5")
    with pytest.raises(ZooError, match="no metadata column 'depth'"):
        subset_zoo(mixed, tmp_path / "none.h5", condition="depth > 5")
    with pytest.raises(ZooError, match="wide.h5 exists and is not overwritten"):
        subset_zoo(mixed, wide.path)


def test_equal_networks_are_dropped(tmp_path: Path) -> None:
    weights = row_weights(range(4))
    for tensor in weights.values():
        tensor[2], tensor[3] = tensor[0], tensor[0]
    weights["layers.1.bias"][3] += 1e-6
    with ZooWriter(tmp_path / "z.h5", provenance={}) as writer:
        for name in ("a", "b"):
            writer.add(Architecture(name, SPEC, FORWARD))
            writer.append(name, weights, {"number": range(4)})
        zoo = writer.finish()
    unique = subset_zoo(zoo, tmp_path / "unique.h5", dedupe=True)
    assert unique.metadata["number"].tolist() == [0, 1, 3, 0, 1, 3]
    assert len(subset_zoo(zoo, tmp_path / "u.h5", [2, 3, 4], dedupe=True)) == 3


def test_merged_zoos_follow_one_another(mixed: Zoo, tmp_path: Path) -> None:
    small = build_zoo(tmp_path / "small.h5", 16)
    zoo = merge_zoos([mixed, small], tmp_path / "all.h5", distinct=["image"])
    assert list(zoo.architectures) == ["small", "wide"], "equal architectures are one"
    assert len(zoo) == ROWS + 16
    assert_same_rows(zoo, [0, 2, 19], subset_zoo(mixed, tmp_path / "m.h5"), [0, 2, 19])
    for name in ("label", "psnr", "title"):
        expected = np.concatenate([mixed.metadata[name], small.metadata[name]])
        np.testing.assert_array_equal(zoo.metadata[name], expected)
    np.testing.assert_array_equal(
        zoo.metadata["image"], np.concatenate([mixed.metadata["image"], small.metadata["image"] + ROWS // 2])
    )
    np.testing.assert_array_equal(
        zoo.split("test"), np.concatenate([mixed.split("test"), small.split("test") + ROWS])
    )
    assert zoo.splits["test"].recipe["column"] == "image"
    assert verify_zoo(zoo.path).ok
    assert flat(zoo.architectures["small"].weights([-1])).tolist() == flat(small.weights([-1])).tolist()


def test_names_that_are_taken_get_a_number(mixed: Zoo, tmp_path: Path) -> None:
    wide = subset_zoo(mixed, tmp_path / "wide.h5", condition="architecture == 'wide'")
    with ZooWriter(tmp_path / "z.h5", provenance={}) as writer:
        writer.add(Architecture("wide", SPEC, FORWARD))
        writer.append("wide", row_weights(range(2)), row_metadata(range(2)))
        other = writer.finish()
    assert list(merge_zoos([wide, other], tmp_path / "both.h5", distinct=["image"]).architectures) == [
        "wide",
        "wide-2",
    ]


def test_columns_that_differ(tmp_path: Path) -> None:
    a = plain(tmp_path / "a.h5", range(2), label=[0, 1], loss=[1, 2])
    b = plain(tmp_path / "b.h5", range(2, 4), label=[2, 3], rate=[0.5, 0.25])
    with pytest.raises(ZooError, match=r"a.h5 has the metadata columns \['loss'\], which not all"):
        merge_zoos([a, b], tmp_path / "all.h5")
    zoo = merge_zoos([a, b], tmp_path / "all.h5", common_columns=True)
    assert {name: values.tolist() for name, values in zoo.metadata.items()} == {"label": [0, 1, 2, 3]}
    with pytest.raises(ZooError, match=r"no columns \['image'\] to number anew; the zoos share \['label'\]"):
        merge_zoos([a, b], tmp_path / "more.h5", distinct=["image"], common_columns=True)
    text = plain(tmp_path / "text.h5", range(2), label=["x", "y"], loss=[1, 2])
    with pytest.raises(ZooError, match="label holds text here, but int"):
        merge_zoos([a, text], tmp_path / "more.h5")
    floats = plain(tmp_path / "floats.h5", range(2), label=[0, 1], loss=[0.5, 2])
    assert merge_zoos([a, floats], tmp_path / "f.h5").metadata["loss"].tolist() == [1, 2, 0.5, 2]


def test_models_of_several_zoos_are_told_apart(tmp_path: Path) -> None:
    columns = {"model": [7, 7, 9], "step": [0, 1, 0]}
    a, b = (plain(tmp_path / f"{name}.h5", range(3), **columns) for name in "ab")
    with pytest.raises(ZooError, match="Rows 0 and 3 both hold step 0 of model 7"):
        merge_zoos([a, b], tmp_path / "all.h5")
    zoo = merge_zoos([a, b], tmp_path / "all.h5", distinct=["model"])
    assert zoo.metadata["model"].tolist() == [0, 0, 1, 2, 2, 3]
    assert zoo.trajectory(2).tolist() == [3, 4]


def test_a_group_that_comes_into_two_splits(tmp_path: Path) -> None:
    by_image = {"column": "image"}
    a = plain(tmp_path / "a.h5", range(2), {"train": Split([0, 1], by_image)}, image=[0, 1])
    b = plain(tmp_path / "b.h5", range(2, 4), {"test": Split([0, 1], by_image)}, image=[1, 2])
    with pytest.raises(ZooError, match="image 1 has rows in the splits"):
        merge_zoos([a, b], tmp_path / "all.h5")


def test_types_are_widened_exactly(tmp_path: Path) -> None:
    half = build_zoo(tmp_path / "half.h5", 16, dtype="float16")
    full = build_zoo(tmp_path / "full.h5", 16)
    zoo = merge_zoos([half, full], tmp_path / "all.h5", distinct=["image"])
    assert zoo.dtype == "float32"
    np.testing.assert_array_equal(zoo.matrix(slice(16)), half.matrix())
    np.testing.assert_array_equal(zoo.matrix(slice(16, None)), full.matrix())
    assert verify_zoo(zoo.path).ok
    assert merge_zoos([half], tmp_path / "same.h5").dtype == "float16"


def test_other_splits(mixed: Zoo, tmp_path: Path) -> None:
    fractions = {"train": 0.6, "test": 0.4}
    zoo = split_zoo(mixed, tmp_path / "z.h5", fractions, by="image", seed=4)
    assert_same_rows(zoo, range(ROWS), mixed, range(ROWS))
    assert sorted(zoo.splits) == ["test", "train"]
    assert zoo.splits["train"].seed == 4
    images = {name: set(zoo.metadata["image"][zoo.split(name)]) for name in zoo.splits}
    assert not images["train"] & images["test"]
    labels = plain(tmp_path / "l.h5", range(8), model=range(8), label=[0, 0, 0, 0, 1, 1, 1, 1])
    halves = split_zoo(labels, tmp_path / "h.h5", {"a": 0.5, "b": 0.5}, by="model", stratify="label")
    assert sorted(halves.metadata["label"][halves.split("a")]) == [0, 0, 1, 1]
    assert halves.splits["a"].recipe["stratify"] == "label"
    with pytest.raises(ZooError, match="no metadata column 'family'"):
        split_zoo(mixed, tmp_path / "x.h5", fractions, by="family")


def test_groups_of_several_columns(mixed: Zoo, tmp_path: Path) -> None:
    zoo = split_zoo(mixed, tmp_path / "z.h5", {"train": 0.5, "test": 0.5}, by=["label", "title"], seed=3)
    owner = {row: name for name in zoo.splits for row in zoo.split(name).tolist()}
    assert len(owner) == len(zoo)
    groups: dict[object, set[str]] = {}
    for row, group in enumerate(zip(zoo.metadata["label"], zoo.metadata["title"], strict=True)):
        groups.setdefault(group, set()).add(owner[row])
    assert {len(names) for names in groups.values()} == {1}
    assert zoo.splits["train"].recipe["columns"] == ["label", "title"]
    assert zoo.splits["train"].recipe["groups"] == len(groups) > 2
    with pytest.raises(ZooError, match="No column was given to split by"):
        split_zoo(mixed, tmp_path / "none.h5", {"train": 1.0}, by=[])


def test_copies_pass_through_block_by_block(
    mixed: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = merge_zoos([mixed, mixed], tmp_path / "whole.h5", distinct=["image"])
    monkeypatch.setattr(wsl.zoo._copies, "BLOCK_BYTES", 300)
    blocks = merge_zoos([mixed, mixed], tmp_path / "blocks.h5", distinct=["image"])
    assert blocks.path.read_bytes() == whole.path.read_bytes()


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_nothing(
    mixed: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(ZooError, match="No space left on device"):
        subset_zoo(mixed, tmp_path / "z.h5")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_copy_leaves_no_zoo(mixed: Zoo, tmp_path: Path) -> None:
    def killed() -> None:
        os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        subset_zoo(mixed, tmp_path / "z.h5")

    assert was_killed(start(killed))
    assert not (tmp_path / "z.h5").exists()
    assert len(subset_zoo(mixed, tmp_path / "z.h5")) == ROWS
