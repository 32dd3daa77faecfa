"""What a zoo holds, on one screen."""

import os

import numpy as np

from wsl.zoo._architecture import ZooArchitecture
from wsl.zoo._store import Zoo

_WIDTH, _LINES = 110, 24
_BARS, _BINS = "▁▂▃▄▅▆▇█", 20


def zoo_info(path: str | os.PathLike[str]) -> str:
    """A zoo's counts, architectures, splits, metadata with ranges, and provenance, as text for people.

    Each column of floats has a histogram between its least and its largest finite value.

    Raises:
        ZooError: as :meth:`Zoo.open`.
    """
    zoo = Zoo.open(path)
    size = zoo.path.stat().st_size / 1e6
    lines = [
        f"zoo          {zoo.path}",
        f"networks     {len(zoo)}, {zoo.dtype}, {size:.1f} MB{_checkpoints(zoo)}",
        f"fingerprint  {zoo.fingerprint}",
        "splits       "
        + (", ".join(f"{name} {len(each.indices)}" for name, each in zoo.splits.items()) or "none"),
        f"architectures, {len(zoo.architectures)}",
        *_some([_architecture_line(view) for view in zoo.architectures.values()]),
        "metadata",
        *(_column_line(name, values) for name, values in zoo.metadata.items()),
        "provenance",
        *_some([f"  {name:<18} {value}" for name, value in zoo.provenance.items()]),
    ]
    if len(zoo.architectures) == 1:
        lines += ["spec", *_some([f"  {line}" for line in str(zoo.spec).splitlines()])]
    return "\n".join(_printable(line) for line in lines)


def _checkpoints(zoo: Zoo) -> str:
    if "model" not in zoo.metadata or "step" not in zoo.metadata:
        return ""
    _, counts = np.unique(zoo.metadata["model"], return_counts=True)
    low, high = counts.min(), counts.max()
    return f", {len(counts)} models of {low if low == high else f'{low} to {high}'} checkpoints"


def _architecture_line(view: ZooArchitecture) -> str:
    forward = view.forward
    arguments = ", ".join(f"{name}={value!r}" for name, value in forward.arguments.items())
    grid = "" if forward.grid is None else f" on a grid of {' x '.join(map(str, forward.grid))}"
    size = f"{len(view)} network{'s' if len(view) > 1 else ''} of {view.width} weights"
    return f"  {view.name:<18} {size}, {forward.factory}({arguments}){grid}"


def _column_line(name: str, values: np.ndarray) -> str:
    distinct = np.unique(values)
    count = f"{len(distinct)} distinct"
    if values.dtype.kind == "U":
        return f"  {name:<18} text   {count}: {', '.join(distinct[:8])}{', …' if len(distinct) > 8 else ''}"
    if values.dtype.kind == "i":
        return f"  {name:<18} int    {distinct[0]} to {distinct[-1]}, {count}"
    finite = values[np.isfinite(values)]
    missing, infinite = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    more = "".join(
        f", {number} {what}" for number, what in ((missing, "missing"), (infinite, "infinite")) if number
    )
    if not len(finite):
        return f"  {name:<18} float  no finite value{more}"
    low, median, high = finite.min(), np.median(finite), finite.max()
    return f"  {name:<18} float  {_bars(finite)} {low:.6g} to {high:.6g}, median {median:.6g}{more}"


def _bars(values: np.ndarray) -> str:
    """A histogram in one line; a bin without values is blank, others at least a low bar."""
    with np.errstate(over="ignore"):
        low, width = values.min(), np.ptp(values)
    if width == 0 or not np.isfinite(width):
        return "[constant]" if width == 0 else "[wide]"
    counts = np.bincount(np.minimum(((values - low) / width * _BINS).astype(int), _BINS - 1), minlength=_BINS)
    heights = np.ceil(counts / counts.max() * len(_BARS)).astype(int)
    return "[" + "".join(_BARS[height - 1] if height else " " for height in heights) + "]"


def _some(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _LINES else [*lines[: _LINES - 1], f"  … {len(lines) - _LINES + 1} more"]


def _printable(line: str) -> str:
    """The line without what could steer a terminal, cut to the width of a screen."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line[: 2 * _WIDTH])
    return shown if len(line) <= _WIDTH else shown[: _WIDTH - 1] + "…"
