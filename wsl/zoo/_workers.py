"""What makes the shards of a build, and what runs it."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, Protocol

from wsl.zoo._build import ShardedBuild

Made = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Weights and metadata of a shard, as :meth:`ShardedBuild.write` takes them."""

Report = Callable[..., None]
"""Takes news of the work for a progress bar. Raises :class:`concurrent.futures.CancelledError` when nobody
waits for the shard any more."""


class ShardMaker(Protocol):
    """Makes any shard of a build, in any process: it pickles, and its result depends on the number alone.

    Called from several threads at once, with the shard's number and a ``report`` to call now and then.
    """

    def __call__(self, shard: int, report: Report) -> Made: ...


class Executor(Protocol):
    """Where shards are made. What is made does not depend on it."""

    def made(
        self, maker: ShardMaker, shards: Sequence[int], report: Report
    ) -> Generator[tuple[int, Made], None, None]:
        """Make shards, several at once, and yield each with its number as soon as it is made.

        Closing the generator ends all work.

        Args:
            report: called in this process with what makers report, from any thread.
        """


def write_pending(build: ShardedBuild, maker: ShardMaker, executor: Executor, report: Report) -> None:
    """Make the shards that are missing and write each as soon as it is made; only this process writes.

    Args:
        report: takes what the maker reports.

    Raises:
        ZooError: a shard cannot be made or written.
    """
    pending = build.pending
    if not pending:
        return
    with closing(executor.made(maker, pending, report)) as made:
        for shard, (weights, metadata) in made:
            build.write(shard, weights, metadata)
