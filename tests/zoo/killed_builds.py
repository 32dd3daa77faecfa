"""Kills builds of the small zoo with SIGKILL and checks what is left. Run by test_build_crash.py.

``python killed_builds.py random FOLDER KILLS`` kills at random moments; ``... steps FOLDER`` before and after
every system call that changes names or waits for the disk. Children are forked: each starts in milliseconds.
"""

import itertools
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from small_zoos import build_zoo

ROWS = 27
STEPS = ("mkdir", "replace", "fsync", "unlink", "rmdir")


def start(action: Callable[[], object]) -> int:
    """Fork a child that runs ``action``; returns its process id."""
    child = os.fork()
    if child == 0:
        try:
            action()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child


def was_killed(child: int) -> bool:
    """Wait for a child: True when it was killed, False when it came to its end; fails if it failed."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the child failed, see its traceback above"
    return False


class Attempts:
    """One zoo that is built in several attempts; checks after each that nothing was redone or lost."""

    def __init__(self, out: Path, pause: float) -> None:
        self.out, self.log, self.pause = out, out.with_suffix(".log"), pause
        self.log.touch()
        self.stored: dict[str, bytes] = {}
        self.seen = 0

    def build(self) -> None:
        """The child's work; notes each shard that it starts."""
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND)

        def work(shard: int) -> None:
            os.write(log, f"shard-{shard:06d}.npz\n".encode())
            time.sleep(self.pause)

        build_zoo(self.out, ROWS, work)

    def check(self) -> None:
        started = self.log.read_text().split()
        redone = set(started[self.seen :]) & set(self.stored)
        assert not redone, f"{redone} were stored and made again"
        shards = {path.name: path.read_bytes() for path in Path(f"{self.out}.build").glob("shard-*.npz")}
        if not self.out.exists():
            assert self.stored.items() <= shards.items(), "a stored shard was lost or changed"
            written = started[self.seen : -1]  # the next one had been started
            assert set(written) <= set(shards), "a shard was written and lost"
        self.stored, self.seen = self.stored | shards, len(started)

    def check_finished(self, reference: bytes) -> None:
        assert self.out.read_bytes() == reference, "the zoo differs from that of an undisturbed build"
        assert not Path(f"{self.out}.build").exists()


def undisturbed(folder: Path, pause: float) -> tuple[bytes, float]:
    """The bytes of a build that nothing interrupts, and the seconds it takes."""
    attempts = Attempts(folder / "undisturbed.h5", pause)
    for path in (attempts.out, attempts.out):  # the first pays for imports
        path.unlink(missing_ok=True)
        begin = time.perf_counter()
        assert not was_killed(start(attempts.build))
    return attempts.out.read_bytes(), time.perf_counter() - begin


def kill_at_random(folder: Path, kills: int, seed: int = 0) -> None:
    import h5py  # noqa: F401  imported once, before the forks

    moments, done = random.Random(seed), 0
    reference, seconds = undisturbed(folder, pause=0.004)
    for number in itertools.count():
        attempts = Attempts(folder / f"{number}.h5", pause=0.004)
        while True:
            child = start(attempts.build)
            if done < kills:
                time.sleep(moments.uniform(0, seconds))
                os.kill(child, signal.SIGKILL)
            killed = was_killed(child)
            attempts.check()
            if not killed:
                break
            done += 1
        attempts.check_finished(reference)
        if done >= kills:
            return


def kill_at_each_step(folder: Path) -> None:
    import h5py  # noqa: F401  imported once, before the forks

    reference, _ = undisturbed(folder, pause=0)
    for step in itertools.count():
        attempts = Attempts(folder / f"{step}.h5", pause=0)

        def interrupted(attempts: Attempts = attempts, step: int = step) -> None:
            _die_at(step)
            attempts.build()

        killed = was_killed(start(interrupted))
        attempts.check()
        if killed:
            assert not was_killed(start(attempts.build))
            attempts.check()
        attempts.check_finished(reference)
        if not killed:
            assert step > 40, f"only {step} steps"
            return


def _die_at(step: int) -> None:
    """Kill this process before (even ``step``) or after (odd) its ``step // 2``-th call of one of STEPS."""
    calls = itertools.count()

    def dying(function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            now = next(calls) == step // 2
            if now and step % 2 == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*args, **kwargs)
            if now:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for name in STEPS:
        setattr(os, name, dying(getattr(os, name)))


if __name__ == "__main__":
    if sys.argv[1] == "random":
        kill_at_random(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        kill_at_each_step(Path(sys.argv[2]))
