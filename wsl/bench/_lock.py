"""One bench at a time in a folder."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wsl.bench._errors import BenchError


@contextmanager
def only_bench(out: Path, patience: float = 5.0) -> Iterator[int]:
    """Hold the folder's lock; the system releases it when this process and its children have ended.

    Args:
        patience: seconds to wait for the children of a bench that was killed.

    Yields:
        The lock's file descriptor, for children to inherit.

    Raises:
        BenchError: another bench holds it.
    """
    out.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(out / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        end = time.monotonic() + patience
        while not _locked(descriptor):
            if time.monotonic() > end:
                raise BenchError(
                    f"another bench is at work in {out}. Wait until it ends, stop it, or choose another "
                    "folder with --out."
                )
            time.sleep(0.1)
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
