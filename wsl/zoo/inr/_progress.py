"""The progress bar of a build."""

import sys
from collections.abc import Mapping
from threading import Lock
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class FitProgress:
    """A bar on stderr with fits a second and the mean quality so far; safe to advance from threads.

    Args:
        total: networks of the zoo.
        stored: of these, the ones that an earlier run fitted.
        shown: ``False`` draws nothing.
    """

    def __init__(self, total: int, stored: int, *, shown: bool) -> None:
        self._progress = Progress(
            TextColumn("fitting"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[quality]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(file=sys.stderr),
            disable=not shown,
        )
        self._task = self._progress.add_task("fit", total=total, completed=stored, rate="", quality="")
        self._stored = stored
        self._lock = Lock()
        self._sums: dict[str, tuple[int, float]] = {}  # networks, and the sum over them

    def __enter__(self) -> "FitProgress":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, quality: Mapping[str, np.ndarray]) -> None:
        """Count fitted networks by what is measured of them, ``(n,)`` each."""
        with self._lock:
            for name, values in quality.items():
                count, total = self._sums.get(name, (0, 0.0))
                self._sums[name] = (count + len(values), total + float(values.sum()))
            fitted = max(count for count, _ in self._sums.values())
            seconds = self._progress.tasks[0].elapsed or 0
            self._progress.update(
                self._task,
                completed=self._stored + fitted,
                rate=f"{fitted / seconds:.0f} fits/s" if seconds else "",
                quality=", ".join(
                    f"{name} {total / count:.4g}" for name, (count, total) in self._sums.items()
                ),
            )
