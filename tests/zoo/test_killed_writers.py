"""Streams and copies that are killed, run twice at once, or looked at while they run."""

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
from killed_builds import start, was_killed
from small_zoos import mixed_zoo
from ways_to_write import ROWS, WAYS

from wsl.zoo import Zoo, ZooError

COPIES = sorted(set(WAYS) - {"build"})  # builds go on where they were: see test_build_crash.py
NOT_YET = re.compile("There is no zoo at .*(being written|is not finished|or build it)")


def kill(tmp_path: Path, way: str, kills: int) -> None:
    source, folder = mixed_zoo(tmp_path / "mixed.h5", ROWS), tmp_path / "made"
    folder.mkdir()
    out, before = folder / "z.h5", source.path.read_bytes()
    for _ in range(2):  # the first pays for imports
        out.unlink(missing_ok=True)
        begin = time.perf_counter()
        assert not was_killed(start(lambda: WAYS[way](source, out)))
        seconds = time.perf_counter() - begin
    expected, moments, killed = out.read_bytes(), random.Random(0), 0
    out.unlink()
    while killed < kills:
        child = start(lambda: WAYS[way](source, out))
        time.sleep(moments.uniform(0, seconds))
        os.kill(child, signal.SIGKILL)
        killed += was_killed(child)
        assert source.path.read_bytes() == before
        if out.exists():
            assert out.read_bytes() == expected, "a file of that name is the whole zoo"
            out.unlink()
        else:
            with pytest.raises(ZooError, match=NOT_YET):
                Zoo.open(out)
    WAYS[way](source, out)
    assert out.read_bytes() == expected
    assert list(folder.iterdir()) == [out], "the next run removes what the killed ones left"


@pytest.mark.parametrize("way", COPIES)
def test_killed_at_three_random_moments(tmp_path: Path, way: str) -> None:
    kill(tmp_path, way, 3)


@pytest.mark.slow
@pytest.mark.parametrize("way", COPIES)
def test_killed_at_fifty_random_moments(tmp_path: Path, way: str) -> None:
    kill(tmp_path, way, 50)


@pytest.mark.parametrize("way", WAYS)
def test_opened_while_it_is_written(tmp_path: Path, way: str) -> None:
    source, out = mixed_zoo(tmp_path / "mixed.h5", ROWS), tmp_path / "made" / "z.h5"
    child, refused, running = start(lambda: WAYS[way](source, out)), 0, True
    while running:
        running = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        for path in (out, *out.parent.glob("z.h5.*/packed.partial")):
            try:
                zoo = Zoo.open(path)
                found = {name: view.matrix().tobytes() for name, view in zoo.architectures.items()}
            except ZooError as err:
                assert path != out or NOT_YET.search(str(err)), err
                refused += 1
    assert not was_killed(child)
    assert refused > 0
    assert found == {name: view.matrix().tobytes() for name, view in Zoo.open(out).architectures.items()}


@pytest.mark.parametrize("way", WAYS)
def test_two_at_once(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = mixed_zoo(tmp_path / "mixed.h5", ROWS), tmp_path / "z.h5"
    replace, refused = os.replace, []

    def second(*names: str) -> None:
        if Path(names[1]) == out:
            with pytest.raises(ZooError, match="Another process is building this zoo: it holds the lock"):
                WAYS[way](source, out)
            refused.append(way)
        replace(*names)

    monkeypatch.setattr(os, "replace", second)
    WAYS[way](source, out)
    assert refused == [way]
    assert sorted(tmp_path.iterdir()) == [source.path, out]
