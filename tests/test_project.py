"""The repository as a whole: commands that must agree, sizes, names, and files that must parse."""

import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml

import wsl

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("wsl", "configs", "tests", "notebooks", ".ci")
TEXT = {".py", ".yaml", ".yml", ".toml", ".md", ".cff", ".txt", ".ipynb", ".cfg", ""}
INSTALL = 'python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e ".[dev]"'
TEST_COMMAND = f"{INSTALL} && .venv/bin/python -m pytest"


def text_files() -> list[Path]:
    """Every text file of the project, this one excepted (it spells out what the others must not hold)."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in TEXT]
    found += [path for path in ROOT.iterdir() if path.suffix in TEXT] + [ROOT / "data" / "README.md"]
    skipped = {"__pycache__", ".ipynb_checkpoints"}
    return [p for p in found if p.is_file() and not skipped & set(p.parts) and p != Path(__file__).resolve()]


def test_readme_and_ci_run_the_same_test_command():
    assert TEST_COMMAND in (ROOT / "README.md").read_text().splitlines()
    assert TEST_COMMAND in (ROOT / ".ci" / "run").read_text().splitlines()


def test_ci_script_is_executable_bash():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_ci_and_pre_commit_run_the_same_checks():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]
    tools = {hook["entry"].split()[0] for hook in hooks[0]["hooks"]}
    script = (ROOT / ".ci" / "run").read_text()
    assert tools == set(re.findall(r"^\.venv/bin/(ruff|mypy|lint-imports)\b", script, flags=re.MULTILINE))


@pytest.mark.parametrize("path", sorted((ROOT / "wsl").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_module_is_short_and_says_what_it_is(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    assert text.lstrip().startswith(('"""', 'r"""')), "a module starts with its docstring"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "configs").rglob("*.yaml")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_config_parses(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_there_are_configs():
    assert list((ROOT / "configs").rglob("*.yaml"))


def test_no_paths_of_one_machine():
    absolute = re.compile(r"(?<![\w.])/(?:home|root|Users|work|opt|mnt|tmp)/|[A-Z]:\\\\|\.\./shared")
    assert absolute.search("see /home/someone") and not absolute.search("https://host.org/opt/x")
    found = [
        f"{p.relative_to(ROOT)}: {m.group()}" for p in text_files() for m in absolute.finditer(p.read_text())
    ]
    assert not found


def test_no_unfinished_marks():
    marks = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
    assert not [str(p) for p in text_files() if marks.search(p.read_text())]


def test_citation_agrees_with_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == wsl.__version__
    assert citation["license"] == "MIT"
    assert citation["title"].startswith("weightspace")
    assert citation["authors"] and citation["message"]


def test_constraints_pin_every_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    pinned = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", line).group()).lower() for line in wanted}
    assert names - {"weightspace"} <= pinned
    assert "torch==2.13.0" in lines


def test_import_contracts_know_every_module():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    listed = set(re.findall(r"\w+", " ".join(contracts[0]["layers"])))
    present = {p.stem if p.suffix else p.name for p in (ROOT / "wsl").iterdir() if p.suffix in {".py", ""}}
    assert present - {"__init__", "__pycache__"} <= listed


def test_command_line_script_and_module_are_one():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"wsl": "wsl.cli:main"}
    helped = subprocess.run(
        [sys.executable, "-m", "wsl", "--help"], capture_output=True, text=True, timeout=120
    )
    assert helped.returncode == 0, helped.stderr
    assert "zoo" in helped.stdout
