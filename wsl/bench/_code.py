"""Which code made a result."""

import hashlib
import subprocess
from pathlib import Path

import wsl


def code_version() -> str:
    """The package's version and, in a git checkout, the last commit that changed it.

    ``+COMMIT.changed-DIGEST`` where files of the package differ from that commit.
    """
    commit = _git("log", "-1", "--abbrev=12", "--format=%h", "--", ".").strip()
    if not commit:
        return wsl.__version__
    changes = _git("status", "--porcelain", "--", ".") and _git("diff", "HEAD", "--", ".") + _new_files()
    mark = f".changed-{hashlib.sha256(changes.encode()).hexdigest()[:6]}" if changes else ""
    return f"{wsl.__version__}+{commit}{mark}"


def _new_files() -> str:
    names = _git("ls-files", "--others", "--exclude-standard", "--", ".").splitlines()
    package = Path(wsl.__file__).parent
    return "".join(f"{name}\n{(package / name).read_text('utf-8', 'replace')}" for name in names)


def _git(*arguments: str) -> str:
    """What git says in the package's folder; nothing without git, or where the package is not in its care."""
    try:
        done = subprocess.run(
            ["git", "-C", str(Path(wsl.__file__).parent), *arguments], capture_output=True, text=True
        )
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""
