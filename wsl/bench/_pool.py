"""Runs in processes of their own, some at once."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import wsl
from wsl.bench._run import LOG, Run

PATIENCE = 10.0


def run_processes(
    runs: Iterable[Run], workers: int, ended: Callable[[Run, int], None], *, inherit: Sequence[int] = ()
) -> None:
    """Let ``python -m wsl bench run FOLDER`` complete each run, ``workers`` of them at once, one thread each.

    However this is left, by Ctrl-C too, no process stays behind; if this one is killed, they end too.

    Args:
        ended: called with each run and its process's exit code, in the order in which they end.
        inherit: file descriptors to hand on.
    """
    waiting = iter(runs)
    active: list[tuple[Run, subprocess.Popen[bytes]]] = []
    try:
        while True:
            while len(active) < workers and (run := next(waiting, None)) is not None:
                active.append((run, _start(run, inherit)))
            if not active:
                return
            time.sleep(0.05)
            for run, process in list(active):
                if (code := process.poll()) is not None:
                    active.remove((run, process))
                    ended(run, code)
    finally:
        _stop([process for _, process in active])


def _start(run: Run, inherit: Sequence[int]) -> subprocess.Popen[bytes]:
    with open(run.folder / LOG, "ab") as log:
        return subprocess.Popen(
            _command(run),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_environment(),
            start_new_session=True,  # Ctrl-C of a terminal reaches this process alone, which stops the others
            pass_fds=tuple(inherit),
        )


def _command(run: Run) -> list[str]:
    return [sys.executable, "-m", "wsl", "bench", "run", str(run.folder), "--parent", str(os.getpid())]


def _environment() -> dict[str, str]:
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    found = os.environ.get("PYTHONPATH")
    paths = [str(Path(wsl.__file__).parents[1]), *([found] if found else [])]
    return {"WANDB_MODE": "disabled", **os.environ, **one, "PYTHONPATH": os.pathsep.join(paths)}


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    end = time.monotonic() + PATIENCE
    for process in processes:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
