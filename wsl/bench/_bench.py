"""The whole bench: plan, complete every run, keep tables and figure up to date."""

import logging
from collections.abc import Callable, Iterable, Sequence

from wsl._files import write_text
from wsl.bench._figure import plot_bench
from wsl.bench._lock import only_bench
from wsl.bench._plan import Request, check_folder, plan_runs
from wsl.bench._run import FAILURE, LOG, Run
from wsl.bench._table import tested_as, write_tables
from wsl.zoo import Zoo

logger = logging.getLogger(__name__)

Execute = Callable[[Iterable[Run], Callable[[Run, int], None], int], None]
_TAIL = 4096


def bench(request: Request, execute: Execute) -> tuple[str, int]:
    """Complete all runs that are not done; a failed one is noted and does not stop the rest.

    Args:
        execute: completes runs; called with them, with a function to call when one has ended (the run and
            its exit code), and with the file descriptor of the folder's lock.

    Returns:
        The table, and the number of runs that failed.

    Raises:
        BenchError: the request cannot be followed, or the folder holds runs with other settings.
        ZooError: the file is no zoo.
    """
    zoo = Zoo.open(request.zoo)
    runs = plan_runs(request, zoo)
    with only_bench(request.out) as lock:
        check_folder(runs, request.redo)
        open_runs = [run for run in runs if not run.done]
        for run in open_runs:
            run.save()
            (run.folder / FAILURE).unlink(missing_ok=True)
        logger.info("%d of %d runs are to be done, %s each", len(open_runs), len(runs), request.budget)
        notes = _notes(request, zoo, runs)
        ended = 0

        def note_end(run: Run, code: int) -> None:
            nonlocal ended
            ended += 1
            logger.info("%d/%d  %s", ended, len(open_runs), _outcome(run, code))
            write_tables(runs, notes, request.out)

        execute(open_runs, note_end, lock)
        text, rows = write_tables(runs, notes, request.out)
        plot_bench(runs, rows, request.out / "figure.png")
    return text, sum(run.failure() is not None for run in runs)


def _outcome(run: Run, code: int) -> str:
    """What became of a run, on a line; a failure is noted in its folder."""
    result = run.result()
    if result is None:
        message = _message(run, code)
        write_text(run.folder / FAILURE, message + "\n")
        return f"{run.name}: failed: {message}"
    names = (run.metric, tested_as(run.metric))
    shown = {name: result[name] for name in names if name in result}
    figures = "  ".join(f"{name} {value:.4f}" for name, value in shown.items())
    return f"{run.name}: {figures}  {result['epochs']:.1f} epochs  {result['cpu_seconds']:.0f} CPU s"


def _message(run: Run, code: int) -> str:
    """The last paragraph that a failed process wrote: the fault of its input, or a traceback's last line."""
    if code < 0:
        return f"the process was ended by signal {-code}, as when memory runs out"
    path = run.folder / LOG
    text = path.read_bytes()[-_TAIL:].decode("utf-8", "replace").strip() if path.is_file() else ""
    _, fault, message = text.rpartition("wsl bench: ")
    lines = (message if fault else text.rpartition("\n")[2]).split()
    return " ".join(lines) or f"the process ended with exit code {code}"


def _notes(request: Request, zoo: Zoo, runs: Sequence[Run]) -> list[str]:
    sizes = ", ".join(f"{len(zoo.split(name))} {name}" for name in zoo.splits)
    limits = " Smoke test: few steps, evaluated on two batches." if request.smoke else ""
    probed = runs[0].probe
    scored = f" Scores are those of a linear probe of {probed['label']!r} on embeddings." if probed else ""
    return [
        f"{request.task}, {request.zoo.name}: {len(zoo)} networks ({sizes}), fingerprint {zoo.fingerprint}. "
        f"Budget of a run: {request.budget} of training on one thread; {request.seeds} seeds, mean ± "
        f"standard deviation. Code {runs[0].key['code']}.{limits}",
        "Seconds and networks / CPU-s are processor time of training steps with reading and augmentation; "
        "start-up, validation (up to ten times a run, four an epoch) and test are not in the budget. Peak MB "
        "is the memory of training beyond that of the interpreter and its libraries. The best validation "
        f"selects the weights; test was evaluated once a run.{scored}",
    ]
