"""What learned optimizers come to beside tuned ones: the README shows what was measured."""

import csv
from pathlib import Path

import pytest

from wsl.learnopt import pretrained

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "data" / "reference" / "learned_optimization"
TUNED = ("SGDM", "Adam", "AdamW", "Muon")


def cells(folder: Path) -> dict[str, dict[str, str]]:
    """By task and optimizer, the training loss after the horizon as the README writes it."""
    with open(folder / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        loss = row["final_train mean"]
        found.setdefault(row["task"], {})[row["optimizer"]] = f"{float(loss):.4g}" if loss else "-"
    return found


def lines(measured: dict[str, dict[str, str]], columns: list[str]) -> list[str]:
    """The README's table, without its head."""
    return [
        f"| `{task}` | {' | '.join(own.get(name, '-') for name in columns)} |"
        for task, own in measured.items()
    ]


def test_the_readme_shows_what_was_measured() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    columns = [*pretrained(), *TUNED]
    assert f"| training loss after the horizon | {' | '.join(f'`{name}`' for name in columns)} |" in readme
    for line in lines(cells(FOLDER), columns):
        assert line in readme, f"the README does not show it:\n{line}"


@pytest.mark.parametrize("task", cells(FOLDER))
def test_every_task_has_a_configuration_and_all_tuned_optimizers(task: str) -> None:
    assert (ROOT / "configs" / "problems" / f"{task}.yaml").is_file()
    assert set(TUNED) | set(pretrained()) == set(cells(FOLDER)[task])


def test_the_functional_ends_below_tuned_descent_and_adam_where_it_was_trained() -> None:
    losses = {name: float(loss) for name, loss in cells(FOLDER)["mlp"].items()}
    assert losses["unf_mlp8"] < min(losses["SGDM"], losses["Adam"])
