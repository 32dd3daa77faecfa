"""``quickstart``: build a zoo, train and test three encoders, draw figures; each step is a command."""

import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from jsonargparse import ArgumentParser

import wsl
import wsl.cli.zoo
from wsl._files import write_text
from wsl.cli import training
from wsl.cli.failures import CommandError
from wsl.report import (
    EncoderResult,
    Study,
    learning_curves,
    plot_confusion,
    plot_curves,
    plot_embeddings,
    plot_renderings,
    read_predictions,
    write_study,
)
from wsl.zoo import Zoo, render
from wsl.zoo.images import DigitsImages

logger = logging.getLogger(__name__)

ENCODERS = {
    "probes": "fast graph metanetwork, with probes",
    "weights": "fast graph metanetwork, weights only",
    "flat_mlp": "flat MLP, weights only",
}
SHOWN_IMAGES = 24
ARGUMENTS = "arguments.json"


def run(arguments: Sequence[str]) -> int:
    """Run every step that is not done yet in the folder, then write figures and the summary."""
    parser = ArgumentParser(prog="python -m wsl quickstart", exit_on_error=False, description=__doc__)
    parser.add_argument(
        "--out", type=str, default="runs/quickstart", help="folder of everything that is made"
    )
    parser.add_argument(
        "--configs",
        type=str | None,
        default=None,
        help="folder of the configurations; the checkout's by default",
    )
    parser.add_argument(
        "--limit", type=int | None, default=None, help="use the first images only, to try it out"
    )
    parser.add_argument("--epochs", type=int | None, default=None, help="train this long only, to try it out")
    options = parser.parse_args(list(arguments[1:]))
    out = Path(options.out)
    configs = Path(options.configs) if options.configs else Path(wsl.__file__).parents[1] / "configs"
    if not (configs / "experiment" / "quickstart_probes.yaml").is_file():
        raise CommandError(
            f"{configs} does not hold the quick start's configurations. Run it in a checkout of the "
            "repository, or name the folder with --configs."
        )
    if options.epochs is not None and options.epochs < 1:
        raise CommandError(f"epochs is {options.epochs}; expected at least 1.")
    given = {"limit": options.limit, "epochs": options.epochs}
    _check_same(out, given)
    zoo = out / "digits_inr.h5"
    if not zoo.exists():
        _timed(out, "zoo", lambda: build(zoo, configs, options.limit))
    write_text(out / ARGUMENTS, json.dumps(given) + "\n")
    for name in ENCODERS:
        train(name, zoo, out, configs, options.epochs)
    sys.stdout.write("\n" + report(zoo, out))
    return 0


def _check_same(out: Path, given: dict[str, int | None]) -> None:
    """Raise CommandError where the folder's zoo and runs were made with other arguments."""
    path = out / ARGUMENTS
    if path.is_file() and (before := json.loads(path.read_text("utf-8"))) != given:
        raise CommandError(
            f"{out} was made with {before}, not with {given}. Choose another folder with --out, "
            "or delete that one."
        )


def build(zoo: Path, configs: Path, limit: int | None) -> None:
    """``zoo build``; goes on with an interrupted build."""
    few = [] if limit is None else ["--limit", str(limit)]
    wsl.cli.zoo.run(
        ["zoo", "build", "--config", str(configs / "zoo/digits_inr.yaml"), "--out", str(zoo), *few]
    )


def train(name: str, zoo: Path, out: Path, configs: Path, epochs: int | None) -> None:
    """``fit``, ``test`` and ``predict`` of one encoder; goes on with an interrupted training."""
    folder = out / name
    given = ["--config", str(configs / f"experiment/quickstart_{name}.yaml")]
    given += ["--name", name, "--runs", str(out), "--data.path", str(zoo)]
    given += [] if epochs is None else ["--trainer.max_epochs", str(epochs)]
    if not (folder / "fit.json").exists():
        logger.info("\ntraining: %s", ENCODERS[name])
        started = (folder / "checkpoints" / "last.ckpt").exists()
        resume = ["--ckpt_path", "last"] if started else []
        _timed(out, name, lambda: training.run(["fit", *given, *resume]))
    for command, product in (("test", "test.json"), ("predict", "predictions.csv")):
        if not (folder / product).exists():
            training.run([command, *given, "--ckpt_path", "best"])


def report(zoo_path: Path, out: Path) -> str:
    """Figures and the summary's text."""
    zoo = Zoo.open(zoo_path)
    test = zoo.split("test")
    curves = {ENCODERS[name]: learning_curves(out / name) for name in ENCODERS}
    found = {ENCODERS[name]: read_predictions(out / name) for name in ENCODERS}
    classes = [str(label) for label in np.unique(zoo.metadata["label"])]
    counts = np.bincount(zoo.metadata["label"][test])
    chance = float(counts.max() / counts.sum())
    figures = out / "figures"
    plot_curves(curves, figures / "training_curves.png", chance=chance)
    plot_confusion(found, classes, figures / "confusion.png")
    plot_embeddings(found, classes, figures / "embeddings.png")
    shown = test[:SHOWN_IMAGES]
    psnr = [f"{value:.0f} dB" for value in zoo.metadata["psnr"][shown]]
    originals = DigitsImages().load().pixels[zoo.metadata["image"][shown]]
    plot_renderings(originals, render(zoo, shown).numpy(), psnr, figures / "renderings.png")
    seconds = _times(out)
    study = Study(
        networks=len(zoo),
        images=len(np.unique(zoo.metadata["image"])),
        held_out=len(test),
        psnr=float(np.median(zoo.metadata["psnr"])),
        psnr_offgrid=float(np.median(zoo.metadata["psnr_offgrid"])),
        chance=chance,
        results=[
            EncoderResult(
                title, found[title].accuracy, curves[title]["val/accuracy"][1], seconds.get(name, 0)
            )
            for name, title in ENCODERS.items()
        ],
        seconds=seconds,
        folder=str(figures),
    )
    return write_study(study, out)


def _timed(out: Path, stage: str, step: Callable[[], object]) -> None:
    """Run a step and add its wall time to ``times.json``, so that interrupted runs count all their time."""
    start = time.perf_counter()
    try:
        step()
    finally:
        if out.exists():  # a step that was refused made nothing
            times = _times(out)
            times[stage] = times.get(stage, 0.0) + time.perf_counter() - start
            write_text(out / "times.json", json.dumps(times) + "\n")


def _times(out: Path) -> dict[str, float]:
    path = out / "times.json"
    times: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    return times
