"""INR zoos of every kind are the same file whatever the workers and interruptions."""

import os
import signal

import pytest
import torch
from inr_zoos import build as build_small

from wsl.zoo import ShardedBuild
from wsl.zoo.images import Coloured, DigitsImages
from wsl.zoo.inr import FitRecipe, MetaRecipe
from wsl.zoo.shapes import OccupancyShapes, SdfShapes

# Each kind of build, in several shards and stacks.
SHAPES = {"count": 14, "points": 512, "batches": 2, "held_out": 256, "resolution": 5}
BUILDS = {
    "views": {"views": 2},
    "colour": {"source": Coloured(DigitsImages())},
    "distances": {"source": SdfShapes(**SHAPES), "limit": None, "shard_rows": 3},
    "occupancy": {"source": OccupancyShapes(**SHAPES), "views": 2, "limit": None},
    "learned": {"initialisation": "meta", "meta": MetaRecipe(rounds=5, batch=4, steps=3)},
}


def build(out, **changes):
    """Of few steps: networks differ from one another and from their initial weights all the same."""
    return build_small(out, recipe=FitRecipe(steps=10), **changes)


@pytest.fixture(scope="module", params=BUILDS, ids=str)
def undisturbed(request, tmp_path_factory):
    changes = BUILDS[request.param]
    return changes, build(
        tmp_path_factory.mktemp("undisturbed") / "z.h5", **changes, workers=2
    ).path.read_bytes()


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_do_not_change_the_file(undisturbed, tmp_path, workers):
    changes, content = undisturbed
    assert build(tmp_path / "z.h5", **changes, workers=workers).path.read_bytes() == content


def test_interrupted_builds_resume_to_the_same_file(undisturbed, tmp_path, monkeypatch):
    (changes, content), stored, write = undisturbed, [], ShardedBuild.write

    def interrupted(self, shard, weights, metadata):
        if len(stored) == 2:
            raise KeyboardInterrupt
        write(self, shard, weights, metadata)
        stored.append(shard)

    monkeypatch.setattr(ShardedBuild, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "z.h5", **changes)
    assert not (tmp_path / "z.h5").exists()

    def counted(self, shard, weights, metadata):
        assert shard not in stored, "fitted twice"
        write(self, shard, weights, metadata)

    monkeypatch.setattr(ShardedBuild, "write", counted)
    assert build(tmp_path / "z.h5", **changes).path.read_bytes() == content


@pytest.mark.parametrize("kind", ["distances", "learned"])
def test_killed_builds_resume_to_the_same_file(tmp_path, kind):
    content = build(tmp_path / "undisturbed.h5", **BUILDS[kind]).path.read_bytes()
    write, child = ShardedBuild.write, os.fork()
    if child == 0:
        torch.set_num_threads(1)

        def dying(self, shard, weights, metadata):
            write(self, shard, weights, metadata)
            if shard == 1:
                os.kill(os.getpid(), signal.SIGKILL)

        ShardedBuild.write = dying
        build(tmp_path / "z.h5", **BUILDS[kind], workers=1)
        os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert len(list((tmp_path / "z.h5.build").glob("shard-*"))) == 2
    assert build(tmp_path / "z.h5", **BUILDS[kind]).path.read_bytes() == content
