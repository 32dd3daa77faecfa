"""Zoos that are written from a stream of rows and read as one."""

import errno
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from killed_builds import start, was_killed
from small_zoos import (
    FORWARD,
    OTHER,
    PROVENANCE,
    SPEC,
    build_zoo,
    flat,
    image_splits,
    mixed_matrices,
    mixed_zoo,
    row_metadata,
    row_weights,
)

import wsl.zoo._streaming
from wsl.zoo import Architecture, ForwardDefinition, Split, Zoo, ZooError, ZooWriter, iter_rows, verify_zoo

SMALL = Architecture("Siren", SPEC, FORWARD)


def writer_of(out: Path, **changes: Any) -> ZooWriter:
    writer = ZooWriter(out, **({"provenance": PROVENANCE} | changes))
    writer.add(SMALL)
    return writer


def test_a_stream_makes_the_file_of_a_build(tmp_path: Path) -> None:
    with writer_of(tmp_path / "stream.h5") as writer:
        for start in range(0, 16, 3):
            rows = range(start, min(16, start + 3))
            writer.append("Siren", row_weights(rows), row_metadata(rows))
            assert len(writer) == rows.stop
        zoo = writer.finish(image_splits(16))
    assert zoo.path.read_bytes() == build_zoo(tmp_path / "built.h5").path.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["built.h5", "stream.h5"]


def test_several_architectures_in_any_order(tmp_path: Path) -> None:
    zoo = mixed_zoo(tmp_path / "mixed.h5", 20)
    assert zoo.architecture_of()[:4].tolist() == ["small", "small", "wide", "small"]
    for name, matrix in mixed_matrices(20).items():
        np.testing.assert_array_equal(zoo.architectures[name].matrix(), matrix)
    assert verify_zoo(zoo.path).ok


@pytest.mark.parametrize("block_bytes", [1, 500, 1 << 20])
def test_a_zoo_is_read_block_by_block(tmp_path: Path, block_bytes: int) -> None:
    zoo = mixed_zoo(tmp_path / "mixed.h5", 20)
    rows = [7, 2, 2, 19, 0, -1]
    for wanted, numbers in ((None, list(range(20))), (rows, [7, 2, 2, 19, 0, 19])):
        seen = []
        for block in iter_rows(zoo, wanted, block_bytes=block_bytes):
            assert len(block.rows) * 4 * 29 <= max(block_bytes, 4 * 29)
            ((whole,),) = [[p] for p in zoo.locate(block.rows)]
            assert whole.architecture.name == block.architecture.name
            assert torch.equal(flat(block.weights), flat(whole.architecture.weights(whole.rows)))
            for name, values in block.metadata.items():
                np.testing.assert_array_equal(values, zoo.metadata[name][block.rows])
            seen += block.rows.tolist()
        assert sorted(seen) == sorted(numbers)
        if block_bytes == 1:
            assert seen == numbers


def test_integers_and_floats_make_floats(tmp_path: Path) -> None:
    with writer_of(tmp_path / "z.h5") as writer:
        for rate in ([1], [0.5], [2]):
            writer.append("Siren", row_weights(range(1)), {"rate": rate})
        with pytest.raises(ZooError, match="rate holds text here, but float"):
            writer.append("Siren", row_weights(range(1)), {"rate": ["fast"]})
        assert writer.finish().metadata["rate"].tolist() == [1, 0.5, 2]
    with writer_of(tmp_path / "large.h5") as writer:
        for seed in ([2**53 + 1], [0.5]):
            writer.append("Siren", row_weights(range(1)), {"seed": seed})
        with pytest.raises(ZooError, match="integers up to 9007199254740993 that they would round"):
            writer.finish()


def test_many_small_blocks(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).normal(size=(1100, 21)).astype(np.float32)
    with writer_of(tmp_path / "z.h5") as writer:
        for row in range(1100):
            writer.append("Siren", matrix[row : row + 1], {"model": [row], "title": [str(row)]})
        zoo = writer.finish()
    np.testing.assert_array_equal(zoo.matrix(), matrix)
    assert zoo.metadata["model"].tolist() == list(range(1100))
    assert zoo.metadata["title"].tolist() == [str(row) for row in range(1100)]


def test_diverged_networks_are_kept_when_they_are_flagged(tmp_path: Path) -> None:
    weights = row_weights(range(3))
    weights["layers.1.weight"][1] = torch.inf
    with writer_of(tmp_path / "z.h5") as writer:
        for flags in ({}, {"diverged": [1, 0, 0]}):
            with pytest.raises(ZooError, match=r"layers.1.weight of row 1 .* column `diverged`"):
                writer.append("Siren", weights, flags)
        writer.append("Siren", weights, {"diverged": [0, 1, 0]})
        zoo = writer.finish()
    assert torch.equal(flat(zoo.weights()), flat(weights))
    result = verify_zoo(zoo.path)
    assert (result.ok, result.not_finite) == (True, [1])


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "architecture": ({"architecture": "cnn"}, r"no architecture 'cnn' yet; added are \['Siren'\]"),
    "columns": ({"metadata": {}}, r"columns \[\], but earlier ones have \['image'"),
    "length": ({"metadata": row_metadata(range(2))}, "image has 2 values for 3 rows"),
    "matrix": ({"weights": np.zeros((3, 20), np.float32)}, r"shape \(3, 20\), expected floats \(3, 21\)"),
    "text": ({"weights": np.full((3, 21), "x")}, "The rows are <U1"),
    "missing": ({"weights": {"layers.0.bias": np.zeros((3, 5))}}, "missing"),
}


@pytest.mark.parametrize("case", WRONG)
def test_rows_that_do_not_fit_change_nothing(tmp_path: Path, case: str) -> None:
    change, message = WRONG[case]
    rows = {"architecture": "Siren", "weights": row_weights(range(3)), "metadata": row_metadata(range(3))}
    with writer_of(tmp_path / "z.h5") as writer:
        writer.append(**rows)
        with pytest.raises(ZooError, match=message):
            writer.append(**(rows | change))
        writer.append(**rows)
        zoo = writer.finish()
    assert torch.equal(flat(zoo.weights()), flat(row_weights(range(3))).repeat(2, 1))


def test_architectures_that_cannot_be_added(tmp_path: Path) -> None:
    with writer_of(tmp_path / "z.h5") as writer:
        for architecture, message in (
            (SMALL, "added already"),
            (Architecture("a/b", SPEC, FORWARD), "cannot name an architecture"),
            (Architecture("other", SPEC, OTHER.forward), "does not build the network of the spec"),
        ):
            with pytest.raises(ZooError, match=message):
                writer.add(architecture)
        writer.add(OTHER)
        writer.append("Siren", row_weights(range(2)), {})
        with pytest.raises(ZooError, match="Architecture wide has no rows"):
            writer.finish()


def test_what_cannot_be_finished(tmp_path: Path) -> None:
    with writer_of(tmp_path / "z.h5") as writer, pytest.raises(ZooError, match="No rows were given"):
        writer.finish()
    with writer_of(tmp_path / "z.h5") as writer:
        writer.append("Siren", row_weights(range(3)), {"model": [0, 0, 0], "step": [0, 5, 0]})
        with pytest.raises(ZooError, match="Rows 0 and 2 both hold step 0 of model 0"):
            writer.finish()
    with writer_of(tmp_path / "z.h5") as writer:
        writer.append("Siren", row_weights(range(3)), {})
        with pytest.raises(ZooError, match="expected distinct rows"):
            writer.finish({"train": Split([3])})
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "z.h5"
    with writer_of(out) as writer:
        writer.append("Siren", row_weights(range(1)), {})
        with pytest.raises(ZooError, match="holds the lock"):
            writer_of(out)
        out.write_text("mine")
        with pytest.raises(ZooError, match="exists and is not overwritten"):
            writer.finish()
    with pytest.raises(ZooError, match="exists and is not overwritten"):
        writer_of(out)
    assert out.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [out]
    with pytest.raises(ZooError, match="was closed"):
        writer.append("Siren", row_weights(range(1)), {})


def test_a_killed_writer_leaves_no_zoo_and_the_next_one_starts_anew(tmp_path: Path) -> None:
    out = tmp_path / "z.h5"

    def killed() -> None:
        writer = writer_of(out)
        writer.append("Siren", row_weights(range(5)), row_metadata(range(5)))
        os.kill(os.getpid(), signal.SIGKILL)

    assert was_killed(start(killed))
    assert not out.exists()
    with writer_of(out) as writer:
        writer.append("Siren", row_weights(range(2)), row_metadata(range(2)))
        assert len(writer.finish()) == 2
    assert list(tmp_path.iterdir()) == [out]


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with writer_of(tmp_path / "z.h5") as writer:
        writer.append("Siren", row_weights(range(2)), {})
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", full)
            with pytest.raises(ZooError, match="No space left on device"):
                writer.finish()
        assert not (tmp_path / "z.h5").exists()
        assert len(writer.finish()) == 2


def test_what_is_finished_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    undisturbed = mixed_zoo(tmp_path / "whole.h5", 20)
    monkeypatch.setattr(wsl.zoo._streaming, "BLOCK_BYTES", 300)
    write, writes = os.pwrite, 0

    def some(*given: Any) -> int:
        nonlocal writes
        writes += 1
        return full() if writes == 3 else write(*given)

    monkeypatch.setattr(os, "pwrite", some)
    with ZooWriter(tmp_path / "z.h5", provenance=undisturbed.provenance) as writer:
        for view in undisturbed.architectures.values():
            writer.add(Architecture(view.name, view.spec, view.forward))
        for block in iter_rows(undisturbed, block_bytes=1):
            writer.append(block.architecture.name, block.weights, block.metadata)
        with pytest.raises(ZooError, match="No space left on device"):
            writer.finish(undisturbed.splits)
        with pytest.raises(ZooError, match="finished in part already, and takes no more rows"):
            writer.append("small", row_weights(range(1)), row_metadata(range(1)))
        with pytest.raises(ZooError, match="finished in part, with other splits"):
            writer.finish()
        writer.finish(undisturbed.splits)
    assert (tmp_path / "z.h5").read_bytes() == undisturbed.path.read_bytes()


def test_a_stream_takes_the_room_of_its_zoo_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, sizes = os.pwrite, []

    def watched(*given: Any) -> int:
        done = write(*given)
        folder = tmp_path / "z.h5.writing"
        sizes.append(512 * sum(path.stat().st_blocks for path in folder.iterdir()))
        return done

    monkeypatch.setattr(os, "pwrite", watched)
    monkeypatch.setattr(wsl.zoo._streaming, "BLOCK_BYTES", 1 << 16)
    with writer_of(tmp_path / "z.h5") as writer:
        for first in range(0, 20_000, 5_000):
            rows = np.random.default_rng(first).normal(size=(5_000, 21)).astype(np.float32)
            writer.append("Siren", rows, {"model": range(first, first + 5_000)})
        size = writer.finish().path.stat().st_size
    assert len(sizes) == 26
    assert max(sizes) < size + (1 << 17)


def test_unknown_networks_are_stored_too(tmp_path: Path) -> None:
    with ZooWriter(tmp_path / "z.h5", provenance={}, dtype="float16") as writer:
        writer.add(Architecture("net", SPEC, ForwardDefinition("elsewhere:Network")))
        writer.append("net", row_weights(range(2)), {})
        zoo = writer.finish()
    assert zoo.dtype == "float16"
    assert torch.equal(flat(Zoo.open(zoo.path).weights()), flat(row_weights(range(2))).half().float())
