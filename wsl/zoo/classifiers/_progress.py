"""The progress bar of a build of classifiers."""

import sys
from threading import Lock
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


class TrainProgress:
    """A bar on stderr with networks and images a second, the mean accuracy so far, and the time left.

    Safe to advance from threads.

    Args:
        images: training steps times batch sizes, over all networks of the zoo.
        seen: of these, what an earlier run has done.
        networks: of the zoo.
        stored: of these, the ones that an earlier run trained.
        shown: ``False`` draws nothing.
    """

    def __init__(self, images: int, seen: int, networks: int, stored: int, *, shown: bool) -> None:
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(bar_width=12),
            TaskProgressColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(file=sys.stderr),
            disable=not shown,
        )
        self._task = self._progress.add_task("train", total=images, completed=seen, counts="")
        self._networks, self._stored = networks, stored
        self._lock = Lock()
        self._seen, self._trained, self._accuracy = 0, 0, 0.0

    def __enter__(self) -> "TrainProgress":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, images: int) -> None:
        """Count images that networks were trained on."""
        with self._lock:
            self._seen += images
            self._progress.update(self._task, advance=images, counts=self._counts())

    def finish(self, accuracy: np.ndarray) -> None:
        """Count networks that are trained, by their accuracies ``(n,)``."""
        with self._lock:
            self._trained += len(accuracy)
            self._accuracy += float(accuracy.sum())
            self._progress.update(self._task, counts=self._counts())

    def _counts(self) -> str:
        seconds = self._progress.tasks[0].elapsed or 0
        words = [f"{self._stored + self._trained}/{self._networks} networks"]
        if seconds:
            words.append(f"{self._seen / seconds:.0f} images/s")
        if self._trained:
            words.append(f"{100 * self._accuracy / self._trained:.1f} % right")
        return "  ".join(words)
