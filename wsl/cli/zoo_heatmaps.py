"""``zoo heatmaps``: columns of a zoo over a grid of two others."""

import sys
from pathlib import Path

import numpy as np
from jsonargparse import ArgumentParser, Namespace

from wsl.report import heatmap, plot_heatmaps
from wsl.zoo import Zoo, ZooError

HELP = "draw columns over a grid of two others, such as measures over width and batch size"
PHASES = (
    "train_loss",
    "test_accuracy",
    "hessian_trace",
    "hessian_top",
    "cka",
    "mode_connectivity",
    "phase",
)


def arguments(parser: ArgumentParser) -> None:
    """Arguments of ``zoo heatmaps``."""
    parser.add_argument("file", type=str, help="the zoo file to read")
    parser.add_argument("--x", type=str, default="width", help="metadata column along the grid")
    parser.add_argument("--y", type=str, default="batch_size", help="metadata column down the grid")
    parser.add_argument(
        "--columns",
        type=list[str],
        default=list(PHASES),
        help="what to draw: metadata columns, or expressions of them: [train_loss,'test_loss - train_loss']",
    )
    parser.add_argument(
        "--where", type=str, help="draw only rows that meet this condition, such as 'step == 60'"
    )
    parser.add_argument("--out", type=str, required=True, help="the folder to draw into")


def run(parser: ArgumentParser, options: Namespace) -> None:
    """Draw a figure for each column, and one of all."""
    zoo, out = Zoo.open(options.file), Path(options.out)
    rows = np.arange(len(zoo)) if options.where is None else zoo.where(options.where)
    if not options.columns:
        raise ZooError("columns is empty, so there is nothing to draw. Name at least one.")
    x, y = (zoo.column(name)[rows] for name in (options.x, options.y))
    maps = {name: heatmap(x, y, zoo.column(name)[rows]) for name in options.columns}
    made = [
        plot_heatmaps({name: one}, options.x, options.y, out / f"{_file_name(name)}.png")
        for name, one in maps.items()
    ]
    made.append(plot_heatmaps(maps, options.x, options.y, out / "heatmaps.png"))
    for path in made:
        sys.stdout.write(f"{path}\n")


def _file_name(column: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in column)
