"""Damaged files of every format: a ZooError, or a zoo that is whole; never a crash, a hang, or code."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from foreign_zoos import ZOOS
from mutations import copied, damage

from wsl.zoo import ZooError, verify_zoo
from wsl.zoo.formats import FORMATS, import_zoo

LONGEST_SECONDS = 120  # of one import, on a machine that is busy with other things


@contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    def hang(*_: object) -> None:
        raise TimeoutError(f"an import took longer than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fuzz(kind: str, seeds: range, tmp_path: Path) -> int:
    """Import damaged copies; returns how many were refused."""
    form, make = ZOOS[kind]
    make(tmp_path / "pristine")
    marker, out, refused = tmp_path / "marker", tmp_path / "out" / "zoo.h5", 0
    out.parent.mkdir()
    for seed in seeds:
        source = copied(tmp_path / "pristine", tmp_path / "source")
        what = damage(source, seed, marker)
        try:
            with no_longer_than(LONGEST_SECONDS):
                import_zoo(FORMATS[form], source, out)
        except ZooError as err:
            refused += 1
            assert len(str(err)) > 20 and "\n\n" not in str(err), what
            assert not list(out.parent.iterdir()), f"{what}: something is left behind"
        except Exception as err:
            raise AssertionError(f"seed {seed} of {kind}, {what}: {type(err).__name__}: {err}") from err
        else:
            assert verify_zoo(out).ok, what
            out.unlink()
        assert not marker.exists(), f"seed {seed} of {kind}, {what}: code of a file was run"
    return refused


@pytest.mark.parametrize("kind", list(ZOOS))
def test_some_damaged_files(kind: str, tmp_path: Path) -> None:
    assert fuzz(kind, range(10), tmp_path) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(ZOOS))
def test_two_hundred_damaged_files(kind: str, tmp_path: Path) -> None:
    assert fuzz(kind, range(1000, 1200), tmp_path) >= 60
