"""Builds that are killed, repeated, resumed with another recipe, or run twice at once."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_zoos import (
    FORWARD,
    PROVENANCE,
    build_zoo,
    flat,
    image_splits,
    row_metadata,
    row_weights,
    start_build,
)

from wsl.zoo import ForwardDefinition, ShardedBuild, Split, Zoo, ZooError


def run_killed_builds(repository: Path, *arguments: str) -> None:
    script = Path(__file__).with_name("killed_builds.py")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(repository), str(script.parent)])}
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def write(build: ShardedBuild, shard: int) -> None:
    build.write(shard, row_weights(build.rows_of(shard)), row_metadata(build.rows_of(shard)))


def test_killed_at_five_random_moments(repository: Path, tmp_path: Path) -> None:
    run_killed_builds(repository, "random", str(tmp_path), "5")


@pytest.mark.slow
def test_killed_at_fifty_random_moments(repository: Path, tmp_path: Path) -> None:
    run_killed_builds(repository, "random", str(tmp_path), "50")


@pytest.mark.slow
def test_killed_at_each_step(repository: Path, tmp_path: Path) -> None:
    run_killed_builds(repository, "steps", str(tmp_path))


def test_resuming_does_only_what_is_pending(tmp_path: Path) -> None:
    out = tmp_path / "z.h5"
    with start_build(out) as build:
        assert build.pending == [0, 1, 2, 3]
        assert [build.rows_of(shard) for shard in build.pending] == [
            range(5),
            range(5, 10),
            range(10, 15),
            range(15, 16),
        ]
        write(build, 2)
        write(build, 0)
    with pytest.raises(
        ZooError, match="build in .*z.h5.build is not finished: run the same build command again"
    ):
        Zoo.open(out)
    with start_build(out) as build:
        assert build.pending == [1, 3]
        with pytest.raises(ZooError, match=r"2 of 4 shards are not written yet: \[1, 3\]"):
            build.pack({})
        with pytest.raises(ZooError, match="Shard 2 .* stored already"):
            write(build, 2)
        write(build, 3)
        write(build, 1)
        zoo = build.pack(image_splits(16))
    assert torch.equal(flat(zoo.weights()), flat(row_weights(range(16))))
    assert out.read_bytes() == build_zoo(tmp_path / "undisturbed.h5").path.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["undisturbed.h5", "z.h5"]


def test_the_folder_of_the_file_is_made(tmp_path: Path) -> None:
    assert len(build_zoo(tmp_path / "data" / "zoos" / "z.h5")) == 16


def test_a_finished_zoo_is_returned_and_left_alone(tmp_path: Path) -> None:
    zoo = build_zoo(tmp_path / "z.h5")
    before = zoo.path.stat()
    again = build_zoo(zoo.path, work=lambda shard: pytest.fail("nothing is left to do"))
    assert again.fingerprint == zoo.fingerprint
    assert zoo.path.stat() == before or zoo.path.stat().st_mtime_ns == before.st_mtime_ns
    assert not Path(f"{zoo.path}.build").exists()
    with start_build(zoo.path) as build, pytest.raises(ZooError, match="with other splits"):
        build.pack({"train": Split(np.arange(16))})


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"provenance": PROVENANCE | {"recipe": {"steps": 20}}}, "provenance.recipe.steps: 20 now, 10 there"),
        ({"provenance": PROVENANCE | {"extra": None}}, "provenance.extra: null now, nothing there"),
        ({"dtype": "float16"}, "dtype: float16 now, float32 there"),
        ({"rows": 18}, "rows: 18 now, 16 there"),
        (
            {"forward": ForwardDefinition("wsl.models:Siren", {"hidden": [5], "w0": 9})},
            "forward.arguments.w0: 9 now",
        ),
    ],
)
def test_another_recipe_is_refused(
    tmp_path: Path, finished: bool, changes: dict[str, object], difference: str
) -> None:
    out = tmp_path / "z.h5"
    if finished:
        build_zoo(out)
    else:
        with start_build(out) as build:
            write(build, 0)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(
        ZooError, match="belongs to another build. To build this one, choose another out"
    ) as caught:
        start_build(out, **changes)  # type: ignore[arg-type]
    assert difference in str(caught.value)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize("content", [b"", b"my notes", b"\x89HDF\r\n\x1a\n"])
def test_another_file_is_never_overwritten(tmp_path: Path, content: bytes) -> None:
    out = tmp_path / "z.h5"
    out.write_bytes(content)
    with pytest.raises(ZooError, match="not overwritten"):
        start_build(out)
    assert out.read_bytes() == content
    assert list(tmp_path.iterdir()) == [out]


def test_two_builders_at_once(tmp_path: Path) -> None:
    with start_build(tmp_path / "z.h5") as build:
        write(build, 0)
        with pytest.raises(ZooError, match="Another process is building this zoo: it holds the lock"):
            start_build(tmp_path / "z.h5")
        write(build, 1)
    with start_build(tmp_path / "z.h5") as build:
        assert build.pending == [2, 3]


def test_files_that_are_not_of_the_build_stay(tmp_path: Path) -> None:
    with start_build(tmp_path / "z.h5") as build:
        (build.folder / "notes.txt").write_text("mine")
    build_zoo(tmp_path / "z.h5")
    assert [path.name for path in build.folder.iterdir()] == ["notes.txt"]


def test_leftovers_of_a_kill_after_the_rename_are_removed(tmp_path: Path) -> None:
    with start_build(tmp_path / "z.h5") as build:
        write(build, 0)
    build.folder.rename(tmp_path / "kept")
    build_zoo(tmp_path / "z.h5")
    (tmp_path / "kept").rename(build.folder)
    build_zoo(tmp_path / "z.h5")
    assert list(tmp_path.iterdir()) == [tmp_path / "z.h5"]


def test_shards_without_their_recipe(tmp_path: Path) -> None:
    with start_build(tmp_path / "z.h5") as build:
        write(build, 0)
    (build.folder / "build.json").unlink()
    with pytest.raises(ZooError, match="no recipe"):
        start_build(tmp_path / "z.h5")


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    with start_build(tmp_path / "z.h5") as build:
        for shard in build.pending:
            write(build, shard)
        path = build.folder / "shard-000001.npz"
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 1
        path.write_bytes(content)
        with pytest.raises(ZooError, match=r"shard-000001.npz does not read back .* Delete that file"):
            build.pack({})
        path.unlink()
        write(build, 1)
        assert torch.equal(flat(build.pack({}).weights()), flat(row_weights(range(16))))


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with start_build(tmp_path / "z.h5") as build:
        write(build, 0)
        with monkeypatch.context() as patched:
            patched.setattr(os, step, full)
            with pytest.raises(
                ZooError, match="No space left on device. Nothing that was stored before is lost"
            ):
                write(build, 1)
        assert build.pending == [1, 2, 3]
        for shard in build.pending:
            write(build, shard)
        with monkeypatch.context() as patched:
            patched.setattr(os, step, full)
            with pytest.raises(ZooError, match="No space left"):
                build.pack({})
        assert not (tmp_path / "z.h5").exists()
        assert len(build.pack({})) == 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers.0.bias": None}, r"missing \['layers.0.bias'\]"),
        ({"extra": torch.zeros(5)}, r"unknown \['extra'\]"),
        ({"layers.0.bias": torch.zeros(5, 6)}, r"shape \(5, 6\), expected \(5, 5\)"),
        ({"layers.0.bias": torch.full((5, 5), torch.nan)}, "not finite"),
    ],
)
def test_weights_that_do_not_fit(
    tmp_path: Path, change: dict[str, torch.Tensor | None], message: str
) -> None:
    with start_build(tmp_path / "z.h5") as build:
        weights = row_weights(build.rows_of(0)) | change
        weights = {name: tensor for name, tensor in weights.items() if tensor is not None}
        with pytest.raises(ZooError, match=message):
            build.write(0, weights, row_metadata(build.rows_of(0)))
        assert build.pending == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": [0]}, "label has 1 values for 5 rows"),
        ({"label": np.zeros((5, 2))}, r"label has shape \(5, 2\)"),
        ({"label": np.zeros(5, dtype=complex)}, "complex128"),
        ({"label": [None] * 5}, "object"),
        ({"a/b": range(5)}, "cannot name a metadata column"),
        ({"": range(5)}, "cannot name a metadata column"),
        ({"a" * 70_000: range(5)}, "has 70000 of 255 characters"),
        ({"title": ["\ud800"] * 5}, "not valid Unicode"),
        ({"title": ["a\0b"] * 5}, "zero character"),
        ({"label": ["text"] * 5}, "earlier shards have"),
        ({"new": range(5)}, "earlier shards have"),
    ],
)
def test_metadata_that_does_not_fit(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with start_build(tmp_path / "z.h5") as build:
        write(build, 1)
    with start_build(tmp_path / "z.h5") as build, pytest.raises(ZooError, match=message):
        build.write(0, row_weights(build.rows_of(0)), row_metadata(build.rows_of(0)) | change)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 0}, "at least 1"),
        ({"shard_rows": 0}, "at least 1"),
        ({"dtype": "float64"}, "float32 or float16"),
        ({"provenance": {"when": object()}}, "JSON"),
    ],
)
def test_arguments_that_cannot_be_built(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        start_build(tmp_path / "z.h5", **changes)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_shards_outside_the_build(tmp_path: Path) -> None:
    with start_build(tmp_path / "z.h5", forward=FORWARD) as build:
        for shard in (-1, 4):
            with pytest.raises(ZooError, match="0 to 3"):
                build.rows_of(shard)


def test_a_closed_build_takes_nothing(tmp_path: Path) -> None:
    build = start_build(tmp_path / "z.h5")
    build.close()
    build.close()
    assert build.pending == [0, 1, 2, 3]
    for action in (lambda: write(build, 0), lambda: build.pack({})):
        with pytest.raises(ZooError, match="was closed"):
            action()


def test_a_forward_definition_of_another_network(tmp_path: Path) -> None:
    state = torch.get_rng_state()
    with pytest.raises(ZooError, match="does not build the network of the spec"):
        start_build(tmp_path / "z.h5", forward=ForwardDefinition("wsl.models:Siren", {"hidden": [6]}))
    assert torch.equal(torch.get_rng_state(), state)
    assert list(tmp_path.iterdir()) == []


def test_split_names_that_cannot_be_stored(tmp_path: Path) -> None:
    with start_build(tmp_path / "z.h5") as build:
        for shard in build.pending:
            write(build, shard)
        with pytest.raises(ZooError, match="'a/b' cannot name a split"):
            build.pack({"a/b": Split(np.arange(3))})


def test_folders_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ZooError, match="cannot be used for building: Not a directory"):
        start_build(tmp_path / "file" / "z.h5")
    (tmp_path / "z.h5.build").write_text("mine")
    with pytest.raises(ZooError, match="cannot be used for building: File exists"):
        start_build(tmp_path / "z.h5")
