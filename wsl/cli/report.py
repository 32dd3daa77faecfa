"""``report``: the figures of one run."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser

from wsl.report import (
    ReportError,
    learning_curves,
    plot_confusion,
    plot_curves,
    plot_embeddings,
    read_predictions,
)


def run(arguments: Sequence[str]) -> int:
    """Draw what the run's folder has the files for; needs at least metrics or predictions."""
    parser = ArgumentParser(
        prog="python -m wsl report",
        exit_on_error=False,
        description="Draw the figures of a run into its folder.",
    )
    parser.add_argument("folder", type=str, help="the run's folder, e.g. runs/NAME")
    parser.add_argument(
        "--out", type=str | None, default=None, help="where to draw; FOLDER/figures if not given"
    )
    options = parser.parse_args(list(arguments[1:]))
    folder = Path(options.folder)
    if not folder.is_dir():
        raise ReportError(
            f"there is no folder {folder}. Give a run's folder, e.g. runs/NAME of `fit --name NAME`."
        )
    out = Path(options.out) if options.out else folder / "figures"
    made = [plot_curves({folder.name: learning_curves(folder)}, out / "training_curves.png")]
    if (folder / "predictions.csv").is_file():
        found = read_predictions(folder)
        names = [str(c) for c in range(int(max(found.labels.max(), found.predicted.max())) + 1)]
        made.append(plot_confusion({folder.name: found}, names, out / "confusion.png"))
        if found.embeddings is not None:
            made.append(plot_embeddings({folder.name: found}, names, out / "embeddings.png"))
    for path in made:
        sys.stdout.write(f"{path}\n")
    if (folder / "test.json").is_file():
        sys.stdout.write(_metrics(folder / "test.json") + "\n")
    return 0


def _metrics(path: Path) -> str:
    try:
        metrics = {name: float(value) for name, value in json.loads(path.read_text("utf-8")).items()}
    except (ValueError, TypeError, AttributeError) as err:
        raise ReportError(f"{path} does not read as metrics ({err}). Test the run anew.") from err
    return "  ".join(f"{name} {value:.4f}" for name, value in sorted(metrics.items()))
