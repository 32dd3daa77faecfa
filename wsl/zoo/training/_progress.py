"""The progress bar of a build that trains networks."""

import sys
from collections.abc import Callable, Sequence
from threading import Lock
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


class TrainProgress:
    """A bar on stderr with networks and examples a second, the mean quality so far, and the time left.

    Safe to advance from threads.

    Args:
        examples: training steps times batch sizes, over all networks of the zoo.
        seen: of these, what an earlier run has done.
        networks: of the zoo.
        stored: of these, the ones that an earlier run trained.
        unit: what examples are.
        quality: the mean quality in words.
        shown: ``False`` draws nothing.
    """

    def __init__(
        self,
        examples: int,
        seen: int,
        networks: int,
        stored: int,
        *,
        unit: str,
        quality: Callable[[float], str],
        shown: bool,
    ) -> None:
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(bar_width=12),
            TaskProgressColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(file=sys.stderr),
            disable=not shown,
        )
        self._task = self._progress.add_task("train", total=examples, completed=seen, counts="")
        self._networks, self._stored = networks, stored
        self._unit, self._words = unit, quality
        self._lock = Lock()
        self._seen, self._trained, self._known, self._quality = 0, 0, 0, 0.0

    def __enter__(self) -> "TrainProgress":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, examples: int, quality: Sequence[float] | np.ndarray = ()) -> None:
        """Count examples that networks were trained on, and networks that are done.

        Args:
            quality: how good those are, ``(n,)``; values that are not finite tell nothing.
        """
        found = np.asarray(quality, dtype=np.float64)
        known = found[np.isfinite(found)]
        with self._lock:
            self._seen += examples
            self._trained += len(found)
            self._known += len(known)
            self._quality += float(known.sum())
            self._progress.update(self._task, advance=examples, counts=self._counts())

    def _counts(self) -> str:
        seconds = self._progress.tasks[0].elapsed or 0
        words = [f"{self._stored + self._trained}/{self._networks} networks"]
        if seconds:
            words.append(f"{self._seen / seconds:.0f} {self._unit}/s")
        if self._known:
            words.append(self._words(self._quality / self._known))
        return "  ".join(words)
