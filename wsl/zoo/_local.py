"""Makes shards in threads of this process."""

import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any

import torch

from wsl.zoo._workers import Made, Report, ShardMaker


@dataclass(frozen=True)
class LocalExecutor:
    """Threads of this process.

    Args:
        workers: how many; by default the processor cores that this process may use.
    """

    workers: int | None = None

    def made(
        self, maker: ShardMaker, shards: Sequence[int], report: Report
    ) -> Generator[tuple[int, Made], None, None]:
        """Shards about in their order; closing waits until each thread reports for the next time."""
        threads = min(self.workers or _usable_cores(), len(shards))
        queue, running, stop = iter(shards), dict[Future[Made], int](), Event()

        def report_unless_stopped(*news: Any) -> None:
            if stop.is_set():
                raise CancelledError
            report(*news)

        with _threads(threads, stop) as pool:
            while True:
                for shard in queue:
                    running[pool.submit(maker, shard, report_unless_stopped)] = shard
                    if len(running) > threads:  # one more than can run, so that no thread waits for a write
                        break
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), future.result()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux; it knows the cores that a container grants
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _threads(threads: int, stop: Event) -> Iterator[ThreadPoolExecutor]:
    """A pool whose threads each run torch on one core: shards side by side scale, small operators do not.

    Sets ``stop`` on leaving, so that an interrupted build does not wait for whole shards.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="build")
    try:
        yield pool
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        torch.set_num_threads(before)
