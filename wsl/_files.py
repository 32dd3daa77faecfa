"""Files that are either whole or not there, so that a killed run is not taken for a finished one."""

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write ``text`` beside ``path`` and move it there, making the folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, "utf-8")
    os.replace(partial, path)
