"""Reference results: complete, made by one code on one zoo, and shown in the README as they were measured."""

import csv
from pathlib import Path

import pytest

from wsl.bench import read_tables
from wsl.cli import main

ROOT = Path(__file__).parents[1]
OF_OPTIMIZERS = "learned_optimization"  # see test_reference_learnopt.py
FOLDERS = sorted(
    path for path in (ROOT / "data" / "reference").iterdir() if path.is_dir() and path.name != OF_OPTIMIZERS
)
RUNS = """encoder,seed,state,epochs,val/tau,test/tau,metric,mode,budget,configuration,zoo,code,message
a,0,done,3.0,0.5,0.4,val/tau,max,2 CPU minutes,c1,f,0.1.0,
b,0,done,4.0,0.7,0.6,val/tau,max,2 CPU minutes,c2,f,0.1.0,
a,1,done,3.0,0.6,0.4,val/tau,max,2 CPU minutes,c3,f,0.1.0,
b,1,done,4.0,0.8,0.8,val/tau,max,2 CPU minutes,c4,f,0.1.0,
"""


def faults(folder: Path, readme: str, configs: Path) -> list[str]:
    """What is wrong with the results in a folder; nothing if all is well."""
    table, for_programs = read_tables(folder)
    with open(folder / "runs.csv", newline="") as file:
        runs = list(csv.DictReader(file))
    found = []
    if not (configs / f"{folder.name}.yaml").is_file():
        found.append("it has no configuration")
    if (folder / "table.csv").read_text("utf-8") != for_programs:
        found.append("table.csv is not that of runs.csv")
    if not (folder / "table.md").read_text("utf-8").startswith(table):
        found.append("table.md is not that of runs.csv")
    if table not in readme:
        found.append(f"the README does not show it:\n{table}")
    if {run["state"] for run in runs} - {"done", "failed"}:
        found.append("runs are open")
    found += [
        f"runs differ in {key}" for key in ("zoo", "code", "budget") if len({run[key] for run in runs}) > 1
    ]
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_results_are_shown_as_they_were_measured(folder: Path) -> None:
    assert not faults(folder, (ROOT / "README.md").read_text("utf-8"), ROOT / "configs" / "experiment")


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "runs.csv").write_text(RUNS)
    table, for_programs = read_tables(folder)
    (folder / "table.md").write_text(f"{table}\nNotes.\n")
    (folder / "table.csv").write_text(for_programs)
    (tmp_path / "mine.yaml").write_text("{}")
    return folder


def test_sound_results_have_no_faults(reference: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "table", str(reference)]) == 0
    shown = capsys.readouterr().out
    assert "| b | - | - | 4.0 | 0.7500 ± 0.0707 | 0.7000 ± 0.1414 | - | - |" in shown
    assert not faults(reference, f"# Page\n\n{shown}\nText.", reference.parent)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("0.7,0.6", "0.7,0.7", "table.csv is not that of runs.csv"),
        ("b,1,done", "b,1,open", "runs are open"),
        ("c4,f,", "c4,g,", "runs differ in zoo"),
        ("f,0.1.0", "f,0.2.0", "runs differ in code"),
        ("2 CPU minutes,c4", "3 CPU minutes,c4", "runs differ in budget"),
        ("", "", "the README does not show it"),
    ],
    ids=["figure", "open", "zoo", "code", "budget", "readme"],
)
def test_faults_are_found(reference: Path, old: str, new: str, fault: str) -> None:
    (reference / "runs.csv").write_text(RUNS.replace(old, new, 1) if old else RUNS)
    found = faults(reference, "0.7500", reference.parent)
    assert any(one.startswith(fault) for one in found), found


def test_results_belong_to_a_configuration(reference: Path) -> None:
    (reference.parent / "mine.yaml").unlink()
    assert "it has no configuration" in faults(reference, "", reference.parent)
