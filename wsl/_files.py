"""Files that are either whole or not there, so that a killed run is not taken for a finished one."""

import errno
import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write ``text`` beside ``path`` and move it there, making the folder if needed."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, "utf-8")
    os.replace(partial, path)
