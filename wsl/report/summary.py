"""A study of several encoders on one zoo, on one screen."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_BAR = 30
_SHOWN_EPOCHS = (1, 2, 3, 5, 8, 12, 16, 20, 24, 30, 40, 50)


@dataclass(frozen=True)
class EncoderResult:
    """One encoder's outcome.

    Attributes:
        title: its name for people.
        accuracy: on the held-out networks.
        validation: validation accuracy after each epoch, ``(epochs,)``.
        seconds: wall time of training.
    """

    title: str
    accuracy: float
    validation: np.ndarray
    seconds: float


@dataclass(frozen=True)
class Study:
    """What :func:`format_study` shows.

    Attributes:
        networks, images: sizes of the zoo.
        held_out: networks of the test split.
        psnr, psnr_offgrid: medians in dB, on the pixels and half a pixel between them.
        chance: accuracy of always naming the largest class.
        results: one for each encoder.
        seconds: wall time of each stage, by its name.
        folder: where the figures are.
    """

    networks: int
    images: int
    held_out: int
    psnr: float
    psnr_offgrid: float
    chance: float
    results: Sequence[EncoderResult]
    seconds: Mapping[str, float]
    folder: str


def format_study(study: Study) -> str:
    """The study as text: quality of the zoo, accuracies side by side, learning curves, times."""
    rows = [(result.title, result.accuracy) for result in study.results]
    rows.append(("always the largest class", study.chance))
    width = max(len(title) for title, _ in rows)
    lines = [
        f"{study.networks} networks of {study.images} images; "
        f"median PSNR {study.psnr:.1f} dB on the pixels, {study.psnr_offgrid:.1f} dB between them",
        "",
        f"accuracy on {study.held_out} held-out networks (of images that training never saw)",
        *(f"  {title:<{width}}  {share:6.1%}  {'█' * round(_BAR * share)}" for title, share in rows),
        "",
        "validation accuracy by epoch",
        *(f"  {result.title:<{width}}  {_curve(result.validation)}" for result in study.results),
        "",
        "time    " + "   ".join(f"{stage} {seconds:.0f} s" for stage, seconds in study.seconds.items()),
        f"figures {study.folder}",
    ]
    return "\n".join(lines) + "\n"


def write_study(study: Study, folder: Path) -> str:
    """Write ``summary.txt`` and ``summary.json``; returns the text."""
    text = format_study(study)
    (folder / "summary.txt").write_text(text, "utf-8")
    record = {
        "networks": study.networks,
        "images": study.images,
        "held_out": study.held_out,
        "psnr": study.psnr,
        "psnr_offgrid": study.psnr_offgrid,
        "chance": study.chance,
        "seconds": dict(study.seconds),
        "encoders": [
            {
                "title": result.title,
                "accuracy": result.accuracy,
                "validation": list(map(float, result.validation)),
                "seconds": result.seconds,
            }
            for result in study.results
        ],
    }
    (folder / "summary.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    return text


def _curve(values: np.ndarray) -> str:
    last = len(values)
    shown = [epoch for epoch in _SHOWN_EPOCHS if epoch < last] + [last]
    return "  ".join(f"{epoch}: {values[epoch - 1]:.0%}" for epoch in shown if epoch > 0)
