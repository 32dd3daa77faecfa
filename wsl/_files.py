"""Files that are either whole or not there, so that a killed run is not taken for a finished one."""

import errno
import os
from collections.abc import Callable
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write ``text`` beside ``path`` and move it there, making the folder if needed."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, "utf-8")
    os.replace(partial, path)


def write_whole(path: Path, write: Callable[[Path], None], partial: Path) -> None:
    """Let ``write`` make the file ``partial``, bring it to the disk, and only then give it the name ``path``.

    Raises:
        OSError: the system refuses (disk full, no permission). ``path`` is then as it was before.
    """
    write(partial)
    sync(partial)
    os.replace(partial, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Bring a file or a folder's list of names to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
