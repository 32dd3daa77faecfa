"""``bench encoders`` and ``bench learnopt`` compare; ``bench run`` completes one run of the former."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from jsonargparse import ArgumentParser, Namespace

import wsl
from wsl.bench import (
    SMOKE_BUDGET,
    BenchError,
    Budget,
    Request,
    Run,
    bench,
    complete_run,
    only_bench,
    read_tables,
    run_processes,
)
from wsl.cli import bench_learnopt
from wsl.cli.failures import CommandError

OUT, SMOKE_OUT = "runs/bench", "runs/bench_smoke"
BUDGETS: tuple[Literal["minutes", "epochs"], ...] = ("minutes", "epochs")
DONE, SOME_FAILED = 0, 1


def run(arguments: Sequence[str]) -> int:
    """Run ``bench`` with a subcommand; 1 if some runs of a bench failed.

    Raises:
        BenchError: the bench cannot be run as asked.
    """
    parser = ArgumentParser(
        prog="python -m wsl bench",
        exit_on_error=False,
        description="Compare encoders on a zoo, or optimizers on tasks.",
    )
    commands = parser.add_subcommands()
    commands.add_subcommand(
        "encoders", _encoders_parser(), help="train every encoder with equal budgets and seeds"
    )
    commands.add_subcommand(
        "learnopt", bench_learnopt.parser(), help="train tasks with learned and with tuned optimizers"
    )
    commands.add_subcommand("table", _table_parser(), help="print the table of a bench, from its runs.csv")
    commands.add_subcommand("run", _run_parser(), help="complete one run of a bench in this process")
    config = parser.parse_args(list(arguments[1:]))
    commands_by_name = {
        "encoders": _run_encoders,
        "learnopt": bench_learnopt.run,
        "table": _show_table,
        "run": _run_one,
    }
    return commands_by_name[config.subcommand](config[config.subcommand])


def complete(run: Run) -> None:
    """Complete a run of a bench in this process, by the commands ``fit``, ``test`` and ``probe``."""
    from wsl.cli import embeddings, training  # these import Lightning, which takes seconds
    from wsl.tasks import meter

    def command(options: Sequence[str]) -> int:
        return (embeddings if options[0] == "probe" else training).run(options)

    def measure(options: Sequence[str]) -> tuple[float, int]:
        try:
            training.run(options)
        except meter.Measured as found:
            return found.seconds, found.batches
        raise CommandError("training ended before its steps could be timed.")

    complete_run(run, command, measure, meter.peak_memory())


def _run_encoders(options: Namespace) -> int:
    workers = options.workers if options.workers is not None else 2 if options.smoke else 1
    if workers < 1:
        raise BenchError(f"workers is {workers}; expected at least 1.")

    def execute(runs: Iterable[Run], ended: Callable[[Run, int], None], lock: int) -> None:
        run_processes(runs, workers, ended, inherit=[lock])

    request = _request(options)
    text, failed = bench(request, execute)
    sys.stdout.write(f"\n{text}\n{request.out} holds table.md, table.csv, runs.csv and figure.png.\n")
    return SOME_FAILED if failed else DONE


def _run_one(options: Namespace) -> int:
    run = Run.load(Path(options.folder))
    if options.parent is None:
        with only_bench(run.out):
            complete(run)
    else:  # a bench, which holds the lock
        threading.Thread(target=_end_with, args=(options.parent,), daemon=True).start()
        complete(run)
    return DONE


def _show_table(options: Namespace) -> int:
    sys.stdout.write(read_tables(Path(options.folder))[0])
    return DONE


def _request(options: Namespace) -> Request:
    configs = Path(options.configs or Path(wsl.__file__).parents[1] / "configs")
    amounts = {"minutes": options.minutes, "epochs": options.epochs}
    budgets = [Budget(amount, unit) for unit in BUDGETS if (amount := amounts[unit]) is not None]
    if options.smoke and budgets:
        raise BenchError("a smoke test has its own budget; leave --minutes and --epochs out.")
    if not options.smoke and len(budgets) != 1:
        raise BenchError("give the budget of a run: either --minutes of processor time, or --epochs.")
    if not configs.is_dir():
        raise BenchError(f"there is no folder {configs}. Run in a checkout, or name one with --configs.")
    usual = 1 if options.smoke else 3
    return Request(
        zoo=Path(options.zoo),
        out=Path(options.out or (SMOKE_OUT if options.smoke else OUT)),
        configs=configs,
        budget=SMOKE_BUDGET if options.smoke else budgets[0],
        task=options.task,
        encoders=options.encoders or (),
        seeds=usual if options.seeds is None else options.seeds,
        smoke=options.smoke,
        redo=options.redo,
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
    parser.add_argument(
        "--task",
        type=str,
        default="inr_classification",
        help="name of the file in bench/, or the path of a configuration of `fit`, as in configs/experiment/",
    )
    parser.add_argument(
        "--encoders",
        type=str,
        nargs="+",
        default=None,
        help="names of the files in encoder/, or paths of other YAML files; all by default, and the one that "
        "it names for the path of a task",
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
    parser.add_argument(
        "--workers", type=int, default=None, help="runs at once, one core each (default: 1; a smoke test: 2)"
    )
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


def _table_parser() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("folder", type=str, help="a folder with runs.csv, as of --out")
    return parser


def _run_parser() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("folder", type=str, help="the run's folder, e.g. runs/bench/nfn_np/seed0")
    parser.add_argument(
        "--parent", type=int, default=None, help="end when this process is not the parent any more"
    )
    return parser
