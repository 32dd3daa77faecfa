"""The whole bench: plan, complete every trial, keep tables, curves and figures up to date."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wsl.bench._code import code_version
from wsl.bench._errors import BenchError
from wsl.bench._lock import only_bench
from wsl.bench.learnopt._complete import complete_trial
from wsl.bench.learnopt._figure import plot_problem
from wsl.bench.learnopt._plan import Settings, Trial
from wsl.bench.learnopt._problems import Problem
from wsl.bench.learnopt._rivals import Rival, TunedRival
from wsl.bench.learnopt._table import write_tables
from wsl.learnopt import Task
from wsl.spec import SpecError

logger = logging.getLogger(__name__)

_SHOWN = 5
_SMOKE_HORIZON, _SMOKE = 20, Settings(seeds=2, tuning_seeds=1, points=4)


@dataclass(frozen=True)
class Request:
    """What ``python -m wsl bench learnopt`` was asked for.

    Attributes:
        out: folder of trials, tables and figures.
        problems: what is trained on.
        rivals: what trains.
        lanes: trainings at once, which changes no result.
        smoke: 20 steps, a coarse grid, few problems.
        redo: do trials that were made with other settings again, instead of refusing.
    """

    out: Path
    problems: Sequence[Problem]
    rivals: Sequence[Rival]
    settings: Settings = Settings()  # noqa: RUF009
    lanes: int = 64
    smoke: bool = False
    redo: bool = False


def bench_optimizers(request: Request) -> tuple[str, int]:
    """Complete all trials that are not done; one that fails is noted and does not stop the rest.

    Returns:
        The tables, and the number of trials that failed, as those of a task do that cannot be built; an
        optimizer that does not fit a task is no failure.

    Raises:
        BenchError: the request cannot be followed, or the folder holds trials with other settings.
    """
    trials = plan_trials(request)
    failed = 0
    with only_bench(request.out):
        _check_folder(trials, request.redo)
        todo = [trial for trial in trials if trial.result is None]
        logger.info("%d of %d trials are to be done", len(todo), len(trials))
        for problem in request.problems:
            own = [trial for trial in todo if trial.problem.name == problem.name]
            if not own:
                continue
            task = _built(own)
            for trial in own:
                failed += task is None or not _attempt(trial, task, request.lanes)
                write_tables(trials, request.out, request.smoke)
            plot_problem([trial for trial in trials if trial.problem.name == problem.name], request.out)
        text = write_tables(trials, request.out, request.smoke)
    return text, failed


def plan_trials(request: Request) -> list[Trial]:
    """All trials, task by task.

    Raises:
        BenchError: two optimizers have one name, one cannot be that of a folder, or a number is below 1.
    """
    names = [rival.name for rival in request.rivals]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BenchError(f"several optimizers are called {', '.join(twice)}. Rename the files.")
    for name in [*names, *(problem.name for problem in request.problems)]:
        if not name.isprintable() or not name.strip(". ") or set(name) & set("/\\|"):
            raise BenchError(f"{name!r} is no name for a folder and a line of a table. Rename the file.")
    if not names or request.lanes < 1:
        raise BenchError(f"{len(names)} optimizers on {request.lanes} lanes; expected at least 1 of each.")
    problems, rivals, settings = request.problems, request.rivals, request.settings
    if request.smoke:
        problems = [replace(one, horizon=min(one.horizon, _SMOKE_HORIZON)) for one in problems]
        rivals = [rival.coarse() if isinstance(rival, TunedRival) else rival for rival in rivals]
        settings = _SMOKE
    code = code_version()
    return [Trial(problem, rival, settings, request.out, code) for problem in problems for rival in rivals]


def _built(trials: Sequence[Trial]) -> Task | None:
    """The task of these trials, or nothing, which is noted in their folders."""
    try:
        return trials[0].problem.build()
    except BenchError as err:
        logger.warning("%s", err)
        for trial in trials:
            trial.begin()
            trial.save_failure(f"failed: {err}")
        return None


def _attempt(trial: Trial, task: Task, lanes: int) -> bool:
    """Whether all went well; what did not is noted in the trial's folder."""
    trial.begin()
    begun = time.process_time()
    try:
        complete_trial(trial, task, lanes)
    except SpecError as err:
        trial.save_failure(f"does not fit: {err}")
        logger.info("%s does not fit this task", trial.name)
        return True
    except (ValueError, RuntimeError, ArithmeticError, MemoryError) as err:
        trial.save_failure(f"failed: {type(err).__name__}: {err}")
        logger.warning("%s failed: %s", trial.name, err)
        return False
    result = trial.result
    assert result is not None
    final = sum(result["final_train"]) / len(result["final_train"])
    logger.info(
        "%s: training loss %.4g in the end  %.0f CPU s", trial.name, final, time.process_time() - begun
    )
    return True


def _check_folder(trials: Sequence[Trial], redo: bool) -> None:
    other = [(trial, changed) for trial in trials if (changed := trial.made_otherwise())]
    if other and not redo:
        lines = [f"  {trial.folder}: {'; '.join(changed)}" for trial, changed in other]
        more = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        raise BenchError(
            "\n".join(["trials with other settings are there already.", *lines[:_SHOWN], *more])
            + "\n  Keep the settings, choose another folder with --out, or do these anew with --redo."
        )
    for trial, _ in other:
        trial.clear()
