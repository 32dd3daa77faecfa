"""A disk that is full after any number of bytes, imitated by a limit on the size of files."""

import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from killed_builds import start, was_killed
from small_zoos import FORWARD, SPEC, build_zoo, mixed_zoo, row_metadata, row_weights

from wsl.zoo import Architecture, Zoo, ZooError, ZooWriter, merge_zoos, subset_zoo

ROWS = 60


def stream(source: Zoo, out: Path) -> None:
    with ZooWriter(out, provenance={}) as writer:
        writer.add(Architecture("net", SPEC, FORWARD))
        for first in range(0, ROWS, 20):
            rows = range(first, first + 20)
            writer.append("net", row_weights(rows), row_metadata(rows))
        writer.finish()


WAYS: dict[str, Callable[[Zoo, Path], object]] = {
    "build": lambda source, out: build_zoo(out, ROWS),
    "merge": lambda source, out: merge_zoos([source, source], out, distinct=["image"]),
    "stream": stream,
    "subset": lambda source, out: subset_zoo(source, out),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_disk_that_is_full_at_any_moment(
    tmp_path: Path, way: str, capfd: pytest.CaptureFixture[str]
) -> None:
    source, folder = mixed_zoo(tmp_path / "mixed.h5", ROWS), tmp_path / "made"
    folder.mkdir()
    out = folder / "z.h5"
    WAYS[way](source, out)
    expected = out.read_bytes()
    out.unlink()

    def fill() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        for room in range(1, len(expected), len(expected) // 15):
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
            with pytest.raises(ZooError, match="could not be written: File too large"):
                WAYS[way](source, out)
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            assert not out.exists()
            if way != "build":  # a build keeps its shards
                assert list(folder.iterdir()) == []

    assert not was_killed(start(fill))
    WAYS[way](source, out)
    assert out.read_bytes() == expected
    assert "Exception ignored" not in capfd.readouterr().err
