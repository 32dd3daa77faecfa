"""Makes the shards of a build in threads, several at once."""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Event
from typing import Any

import torch

from wsl.zoo._build import ShardedBuild
from wsl.zoo._errors import ZooError

Made = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Weights and metadata of a shard, as :meth:`ShardedBuild.write` takes them."""


def write_pending(
    build: ShardedBuild, make: Callable[[int, Event], Made], workers: int | None = None
) -> None:
    """Make the shards that are missing, in their order, and write each as soon as it is made.

    Args:
        make: called in a thread with the shard's number, and an event that is set when nobody waits for the
            shard any more: raise :class:`concurrent.futures.CancelledError` then.
        workers: threads; by default the processor cores that this process may use.

    Raises:
        ZooError: ``workers`` is below 1, or a shard cannot be written.
    """
    if workers is not None and workers < 1:
        raise ZooError(f"workers is {workers}, expected at least 1.")
    pending = build.pending
    if not pending:
        return
    threads = min(workers or _usable_cores(), len(pending))
    queue = iter(pending)
    running: dict[Future[Made], int] = {}
    stop = Event()
    with _threads(threads, stop) as pool:
        while True:
            for shard in queue:
                running[pool.submit(make, shard, stop)] = shard
                if len(running) > threads:  # one more than can run, so that no thread waits for a write
                    break
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                build.write(running.pop(future), *future.result())


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
