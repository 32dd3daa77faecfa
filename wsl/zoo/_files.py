"""Files that appear whole or not at all, and a lock that dies with its process."""

import errno
import fcntl
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from wsl._files import write_whole
from wsl.zoo._errors import ZooError

PARTIAL = ".partial"
_ATTEMPTS = 100


def replace_file(path: Path, write: Callable[[Path], None], partial: Path | None = None) -> None:
    """Let ``write`` make a temporary file, bring it to the disk, and only then give it the name ``path``.

    Args:
        write: called with the temporary path.
        partial: that path, on the same file system; by default ``path`` with ``.partial`` appended.

    Raises:
        ZooError: the system refuses (disk full, no permission). ``path`` is then as it was before.
    """
    try:
        write_whole(path, write, partial or path.with_name(path.name + PARTIAL))
    except OSError as err:
        raise ZooError(
            f"{path} could not be written: {err.strerror or err}. Nothing that was stored before is lost: "
            "make room or fix the permissions, and run the same command again."
        ) from err


def check_free(path: Path) -> None:
    """Raise ZooError when ``path`` exists: a zoo is never overwritten."""
    if os.path.lexists(path):
        raise ZooError(f"{path} exists and is not overwritten. Move it away or choose another out.")


@contextmanager
def open_refusing(path: Path) -> Iterator["RefusableFile"]:
    """Open a new file for a library that cannot be refused a write, such as HDF5.

    When the system refuses one, the library writes on into the void, and the error is raised at the end.

    Raises:
        OSError: what the system said first.
    """
    with open(path, "wb+", buffering=0) as file:
        target = RefusableFile(file)
        try:
            yield target
        except Exception as err:
            if target.error is not None:
                raise target.error from err
            raise
        target.check()


class RefusableFile:
    """A file that takes every write, and remembers the first that failed in truth."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self.error: OSError | None = None
        self.seek, self.tell, self.flush = file.seek, file.tell, file.flush
        self.read, self.readinto = file.read, file.readinto

    def check(self) -> None:
        """Raise the error that is remembered, if any."""
        if self.error is not None:
            raise self.error

    def write(self, content: Any) -> int:
        view = memoryview(content).cast("B")
        done = 0
        while done < len(view) and self.error is None:
            try:
                done += self._file.write(view[done:]) or 0
            except OSError as err:
                self.error = err
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        try:
            return self._file.truncate(size)
        except OSError as err:
            self.error = self.error or err
            return size or 0


class BuildLock:
    """An exclusive lock on a file; the system releases it when the process ends, however it ends.

    Raises:
        ZooError: another process holds it.
    """

    def __init__(self, path: Path) -> None:
        descriptor = self._acquire(path)
        self._close = weakref.finalize(self, os.close, descriptor)

    @staticmethod
    def _acquire(path: Path) -> int:
        for left in reversed(range(_ATTEMPTS)):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as err:
                if left and isinstance(err, FileNotFoundError):
                    continue  # the folder was removed by a builder that has just finished
                raise ZooError(
                    f"The folder {path.parent} cannot be used for building: {err.strerror}. "
                    "Choose another out, or fix the permissions."
                ) from err
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
                    return descriptor
            except FileNotFoundError:
                pass  # as above: we hold the lock of a file that has no name any more
            except OSError as err:
                os.close(descriptor)
                if err.errno not in (errno.EAGAIN, errno.EACCES):
                    raise ZooError(
                        f"{path} cannot be locked: {err.strerror}. Build on a local disk."
                    ) from err
                raise ZooError(
                    f"Another process is building this zoo: it holds the lock {path}. "
                    "Wait until it ends, or stop it: its finished shards are kept and this goes on from them."
                ) from err
            os.close(descriptor)
        raise ZooError(
            f"{path} was removed {_ATTEMPTS} times while it was being locked. Run the build again."
        )

    def release(self) -> None:
        """Give the lock up; harmless when repeated."""
        self._close()
