"""``report``: the figures of one run, or a page that compares several."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jsonargparse import ArgumentParser

from wsl.report import (
    ReportError,
    breakdown,
    learning_curves,
    plot_confusion,
    plot_curves,
    plot_embeddings,
    plot_numbers,
    read_metrics,
    read_number_predictions,
    read_predictions,
    read_settings,
    runs_below,
    write_breakdown,
    write_page,
)
from wsl.zoo import Zoo


def run(arguments: Sequence[str]) -> int:
    """Draw one run's figures into its folder, or write the page of several."""
    parser = ArgumentParser(
        prog="python -m wsl report",
        exit_on_error=False,
        description="Draw the figures of a run into its folder, or compare runs on one HTML page.",
    )
    parser.add_argument(
        "folders",
        type=str,
        nargs="+",
        help="the runs' folders, e.g. runs/NAME, or folders above them, e.g. runs/bench",
    )
    parser.add_argument(
        "--out", type=str | None, default=None, help="where to draw one run; FOLDER/figures if not given"
    )
    parser.add_argument(
        "--html",
        type=str | None,
        default=None,
        help="the page to write, which holds all that it shows; report.html for several runs if not given",
    )
    options = parser.parse_args(list(arguments[1:]))
    folders = [run for folder in options.folders for run in runs_below(Path(folder))]
    if options.html is None and len(folders) == 1:
        _draw(folders[0], options.out)
        return 0
    if options.out is not None:
        raise ReportError(
            f"--out is {options.out}, a folder for the figures of one run, but a page of {len(folders)} "
            "runs is a file. Name it with --html."
        )
    sys.stdout.write(f"{write_page(folders, Path(options.html or 'report.html'))}\n")
    return 0


def _draw(folder: Path, given: str | None) -> None:
    """Draw what the run's folder has the files for; needs at least metrics."""
    if not folder.is_dir():
        raise ReportError(
            f"there is no folder {folder}. Give a run's folder, e.g. runs/NAME of `fit --name NAME`."
        )
    out = Path(given) if given else folder / "figures"
    made = [plot_curves({folder.name: learning_curves(folder)}, out / "training_curves.png")]
    if (numbers := read_number_predictions(folder)) is not None:
        made.append(plot_numbers({folder.name: numbers}, out / "predictions.png"))
        if (columns := _columns(folder, numbers.rows)) is not None:
            made.append(write_breakdown(breakdown(numbers, columns), out / "breakdown.csv"))
    elif (folder / "predictions.csv").is_file():
        found = read_predictions(folder)
        names = [str(c) for c in range(int(max(found.labels.max(), found.predicted.max())) + 1)]
        made.append(plot_confusion({folder.name: found}, names, out / "confusion.png"))
        if found.embeddings is not None:
            made.append(plot_embeddings({folder.name: found}, names, out / "embeddings.png"))
    for path in made:
        sys.stdout.write(f"{path}\n")
    if (folder / "test.json").is_file():
        metrics = read_metrics(folder / "test.json")
        sys.stdout.write("  ".join(f"{name} {value:.4f}" for name, value in sorted(metrics.items())) + "\n")


def _columns(folder: Path, rows: np.ndarray) -> dict[str, np.ndarray] | None:
    """Metadata of the predicted rows, from the zoo that the run was trained on; None if it is gone."""
    path = read_settings(folder).get("data.path")
    if path is None or not Path(path).is_file():
        return None
    zoo = Zoo.open(path)
    if rows.max() >= len(zoo):
        return None
    return {name: column[rows] for name, column in zoo.metadata.items()}
