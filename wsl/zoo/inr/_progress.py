"""The progress bar of a build."""

import sys
from threading import Lock
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class FitProgress:
    """A bar on stderr with fits a second and the mean PSNR so far; safe to advance from threads.

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
        self._sums = np.zeros(3)  # networks, PSNR, PSNR between the pixels

    def __enter__(self) -> "FitProgress":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, psnr: np.ndarray, psnr_offgrid: np.ndarray) -> None:
        """Count fitted networks by their PSNR values, ``(n,)``."""
        with self._lock:
            self._sums += (len(psnr), psnr.sum(), psnr_offgrid.sum())
            fitted, on, off = self._sums
            seconds = self._progress.tasks[0].elapsed or 0
            self._progress.update(
                self._task,
                completed=self._stored + int(fitted),
                rate=f"{fitted / seconds:.0f} fits/s" if seconds else "",
                quality=f"{on / fitted:.1f} dB ({off / fitted:.1f} off grid)",
            )
