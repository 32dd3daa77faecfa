"""Builds whose shards belong to several architectures."""

from pathlib import Path

import pytest
from small_zoos import FORWARD, OTHER, PROVENANCE, SPEC, flat, mixed_matrices, row_metadata

from wsl.zoo import Architecture, Shard, ShardedBuild, Zoo, ZooError, even_shards, split_by_model

SMALL = Architecture("small", SPEC, FORWARD)
SHARDS = [*even_shards(4, 3), Shard(5, 1), Shard(2, 0)]  # rows 4 to 8 are of the wider architecture


def start(out: Path, architectures=(SMALL, OTHER), shards=SHARDS) -> ShardedBuild:
    return ShardedBuild(out, architectures=architectures, shards=shards, provenance=PROVENANCE)


def write(build: ShardedBuild, shard: int) -> None:
    rows = build.rows_of(shard)
    name = "wide" if SHARDS[shard].architecture else "small"
    build.write(shard, mixed_matrices(30)[name][rows.start : rows.stop], row_metadata(rows))


def finish(build: ShardedBuild) -> Zoo:
    return build.pack(split_by_model(row_metadata(range(11))["image"], {"a": 0.5, "b": 0.5}, 0))


def test_rows_come_back_by_architecture_whatever_the_order_of_writing(tmp_path):
    for out, parts in (("a.h5", [(0, 1, 2, 3)]), ("b.h5", [(3, 2), (1,), (0,)])):
        for shards in parts:  # an interrupted build opens again
            with start(tmp_path / out) as build:
                assert set(shards) <= set(build.pending)
                for shard in shards:
                    write(build, shard)
                if not build.pending:
                    zoo = finish(build)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    assert zoo.architecture_of().tolist() == ["small"] * 4 + ["wide"] * 5 + ["small"] * 2
    for name, rows in (("small", [0, 1, 2, 3, 9, 10]), ("wide", range(4, 9))):
        found = flat(zoo.architectures[name].weights()).numpy()
        assert (found == mixed_matrices(30)[name][rows]).all()
    assert zoo.metadata["image"].tolist() == row_metadata(range(11))["image"]
    assert start(tmp_path / "a.h5").pending == []


@pytest.mark.parametrize("finished", [False, True])
def test_shards_of_other_architectures_are_another_build(tmp_path, finished):
    with start(tmp_path / "z.h5") as build:
        for shard in range(4 if finished else 1):
            write(build, shard)
        if finished:
            finish(build)
    with pytest.raises(ZooError, match=r"architectures.small.rows: 5 now, 6 there"):
        start(tmp_path / "z.h5", shards=[Shard(5), Shard(6, 1)])


@pytest.mark.parametrize(
    ("architectures", "shards", "message"),
    [
        ([SMALL, SMALL], SHARDS, "names of their own"),
        ([SMALL], SHARDS, "each shard one of them"),
        ([SMALL, OTHER], [Shard(3)], "needs a shard"),
        ([SMALL], [Shard(3), Shard(0)], "has no rows"),
    ],
)
def test_architectures_that_cannot_be_built(tmp_path, architectures, shards, message):
    with pytest.raises(ZooError, match=message):
        start(tmp_path / "z.h5", architectures, shards)
    assert list(tmp_path.iterdir()) == []
