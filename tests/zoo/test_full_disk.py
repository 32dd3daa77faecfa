"""Full disks: after any number of bytes, imitated by a limit on the size of files, and in truth."""

import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from killed_builds import start, was_killed
from small_zoos import mixed_zoo
from ways_to_write import ROWS, WAYS

from wsl.zoo import ZooError


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


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of 256 KiB in memory; mounting one takes the rights of root."""
    folder = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this process may not mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_small_disk(small_disk: Path, tmp_path: Path, way: str) -> None:
    source, out, fill = mixed_zoo(tmp_path / "mixed.h5", ROWS), small_disk / "z.h5", small_disk / "fill"
    WAYS[way](source, tmp_path / "expected.h5")
    expected = (tmp_path / "expected.h5").read_bytes()
    refused = 0
    for pages in range(64):  # that are free
        fill.write_bytes(bytes(max(0, shutil.disk_usage(small_disk).free - 4096 * pages)))
        try:
            WAYS[way](source, out)
            break
        except ZooError as err:
            assert "No space left on device" in str(err)
        assert not out.exists()
        if way != "build":  # a build keeps its shards
            assert list(small_disk.iterdir()) == [fill]
        refused += 1
        fill.unlink()
    assert refused > 2
    assert out.read_bytes() == expected
    fill.unlink()
    assert list(small_disk.iterdir()) == [out]
    out.unlink()
