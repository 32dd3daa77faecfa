"""``bench encoders`` compares encoders under equal budgets; ``bench run`` completes one of its runs."""

import importlib
import os
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from jsonargparse import ArgumentParser

import wsl
from wsl.bench import SMOKE_BUDGET, BenchError, Budget, Request, Run, bench, complete_run, run_processes
from wsl.cli.failures import CommandError

OUT, SMOKE_OUT = "runs/bench", "runs/bench_smoke"
DONE, SOME_FAILED = 0, 1


def run(arguments: Sequence[str]) -> int:
    """Run ``bench`` with a subcommand; 1 if some runs of a bench failed.

    Raises:
        BenchError: the bench cannot be run as asked.
    """
    parser = ArgumentParser(
        prog="python -m wsl bench", exit_on_error=False, description="Compare encoders on a zoo."
    )
    commands = parser.add_subcommands()
    commands.add_subcommand(
        "encoders", _encoders_parser(), help="train every encoder with equal budgets and seeds"
    )
    commands.add_subcommand("run", _run_parser(), help="complete one run of a bench in this process")
    config = parser.parse_args(list(arguments[1:]))
    options = config[config.subcommand]
    if config.subcommand == "run":
        if options.parent is not None:
            threading.Thread(target=_end_with, args=(options.parent,), daemon=True).start()
        complete(Run.load(Path(options.folder)))
        return DONE
    request = _request(options)
    text, failed = bench(
        request, lambda runs, ended, lock: run_processes(runs, options.workers, ended, inherit=[lock])
    )
    sys.stdout.write(
        f"\n{text}\n{request.out / 'table.md'}, table.csv, runs.csv and figure.png are written.\n"
    )
    return SOME_FAILED if failed else DONE


def complete(run: Run) -> None:
    """Complete a run of a bench in this process, by the commands ``fit`` and ``test``."""
    training = importlib.import_module("wsl.cli.training")  # imports Lightning, which takes seconds
    meter = importlib.import_module("wsl.tasks.meter")

    def measure(options: Sequence[str]) -> tuple[float, int]:
        try:
            training.run(options)
        except meter.Measured as found:
            return found.seconds, found.batches
        raise CommandError("training ended before its steps could be timed: the train split has too few.")

    complete_run(run, training.run, measure, meter.peak_memory())


def _request(options: object) -> Request:
    given = partial(getattr, options)
    configs = Path(given("configs") or Path(wsl.__file__).parents[1] / "configs")
    if given("workers") < 1:
        raise BenchError(f"workers is {given('workers')}; expected at least 1.")
    budgets = [Budget(value, unit) for unit in ("minutes", "epochs") if (value := given(unit)) is not None]
    if given("smoke"):
        if budgets:
            raise BenchError("a smoke test has its own budget; leave --minutes and --epochs out.")
        budgets = [SMOKE_BUDGET]
    if len(budgets) != 1:
        raise BenchError("give the budget of a run: either --minutes of processor time, or --epochs.")
    if not configs.is_dir():
        raise BenchError(
            f"there is no folder {configs}. Run in a checkout, or name its configs with --configs."
        )
    seeds = given("seeds") if given("seeds") is not None else 1 if given("smoke") else 3
    return Request(
        zoo=Path(given("zoo")),
        out=Path(given("out") or (SMOKE_OUT if given("smoke") else OUT)),
        configs=configs,
        budget=budgets[0],
        task=given("task"),
        encoders=given("encoders") or (),
        seeds=seeds,
        smoke=given("smoke"),
        redo=given("redo"),
    )


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, so that a killed bench leaves none behind."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def _encoders_parser() -> ArgumentParser:
    parser = ArgumentParser(
        exit_on_error=False,
        description="Train each encoder on a zoo with the same budget and seeds, each run in a process with "
        "one thread; select by validation, test once, write table.md, table.csv, runs.csv and figure.png. "
        "The same command goes on with what an interrupted one left, and trains nothing twice.",
    )
    parser.add_argument("--zoo", type=str, required=True, help="the zoo file")
    parser.add_argument(
        "--configs",
        type=str,
        default=None,
        help="folder with bench/TASK.yaml and encoder/NAME.yaml; the checkout's by default",
    )
    parser.add_argument("--task", type=str, default="inr_classification", help="name of the file in bench/")
    parser.add_argument(
        "--encoders",
        type=str,
        nargs="+",
        default=None,
        help="names of the files in encoder/, or paths of other YAML files; all by default",
    )
    parser.add_argument("--seeds", type=int, default=None, help="runs of each encoder (default: 3)")
    parser.add_argument(
        "--minutes",
        type=float,
        default=None,
        help="processor time of training in a run: steps are timed first, and their number is fixed; "
        "start-up, validation and test are not counted",
    )
    parser.add_argument("--epochs", type=int, default=None, help="or: the same epochs for all")
    parser.add_argument("--workers", type=int, default=1, help="runs at once; at most the number of cores")
    parser.add_argument("--out", type=str, default=None, help=f"folder of runs and tables (default: {OUT})")
    parser.add_argument(
        "--smoke",
        action="store_true",
        help=f"try everything in about two minutes: four steps, one seed, into {SMOKE_OUT}",
    )
    parser.add_argument(
        "--redo",
        action="store_true",
        help="delete runs that were made with other settings, and train them anew",
    )
    return parser


def _run_parser() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("folder", type=str, help="the run's folder, e.g. runs/bench/nfn_np/seed0")
    parser.add_argument(
        "--parent", type=int, default=None, help="end when this process is not the parent any more"
    )
    return parser
