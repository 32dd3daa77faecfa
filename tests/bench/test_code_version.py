"""The code's version tells commits and changes of the package apart, and nothing else."""

import shutil
import subprocess

import pytest

import wsl
from wsl.bench import code_version

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of one file in a repository with another file."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    monkeypatch.setattr(wsl, "__file__", str(folder / "__init__.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return folder


def test_without_a_repository(package):
    assert code_version() == wsl.__version__


def test_a_repository_that_does_not_hold_the_package(package):
    git(package.parent, "init", "-q")
    git(package.parent, "add", "notes.txt")
    git(package.parent, "commit", "-q", "-m", "notes")
    assert code_version() == wsl.__version__


def test_commits_and_changes(package):
    git(package.parent, "init", "-q")
    git(package.parent, "add", ".")
    git(package.parent, "commit", "-q", "-m", "all")
    first = code_version()
    assert first.startswith(f"{wsl.__version__}+") and len(first) == len(wsl.__version__) + 13
    (package.parent / "notes.txt").write_text("more")
    git(package.parent, "commit", "-q", "-a", "-m", "notes")
    assert code_version() == first
    (package / "__init__.py").write_text("a = 1")
    changed = code_version()
    (package / "__init__.py").write_text("a = 2")
    assert first != changed != code_version() and code_version().startswith(f"{first}.changed-")
    (package / "__init__.py").write_text("")
    assert code_version() == first
    (package / "new.py").write_text("b = 1")
    added = code_version()
    (package / "new.py").write_text("b = 2")
    assert first != added != code_version()
    git(package.parent, "add", ".")
    git(package.parent, "commit", "-q", "-m", "new")
    assert code_version() not in (first, added) and "changed" not in code_version()
