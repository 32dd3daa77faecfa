"""``zoo``: make, inspect, cut and join zoos of trained networks."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jsonargparse import ArgumentParser, Namespace

from wsl.cli import zoo_heatmaps, zoo_hub, zoo_import
from wsl.cli.failures import CommandError, condense, describe_failure
from wsl.zoo import (
    Zoo,
    ZooError,
    merge_zoos,
    row_lines,
    split_zoo,
    subset_zoo,
    verify_zoo,
    zoo_info,
)
from wsl.zoo.classifiers import build_classifier_zoo
from wsl.zoo.inr import build_inr_zoo
from wsl.zoo.language import build_language_zoo
from wsl.zoo.phases import build_phase_zoo


class Command(NamedTuple):
    """One subcommand of ``zoo``."""

    help: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[ArgumentParser, Namespace], None]


def run(arguments: Sequence[str]) -> int:
    """Run ``zoo`` with a subcommand.

    Raises:
        ZooError: the file or the images are at fault, or rows of a verified zoo are damaged.
    """
    parser = ArgumentParser(
        prog="python -m wsl zoo", exit_on_error=False, description="Make, inspect, cut and join zoos."
    )
    commands, parsers = parser.add_subcommands(), {}
    for name, command in COMMANDS.items():
        parsers[name] = ArgumentParser(exit_on_error=False, description=command.help)
        command.add_arguments(parsers[name])
        commands.add_subcommand(name, parsers[name], help=command.help)
    config = parser.parse_args(list(arguments[1:]))
    name = config.subcommand
    COMMANDS[name].run(parsers[name], config[name])
    return 0


def _builder(help: str, build: Callable[..., Zoo]) -> Command:
    """The command that calls ``build``, with an option for each of its arguments."""

    def add_arguments(parser: ArgumentParser) -> None:
        parser.add_argument(
            "-c", "--config", action="config", help="YAML file with any of the options below."
        )
        parser.add_function_arguments(build)

    def run_builder(parser: ArgumentParser, options: Namespace) -> None:
        try:
            given = parser.instantiate(options)
        except ValueError as err:
            if describe_failure(err) is not None:
                raise
            raise CommandError(condense(str(err))) from err
        given.pop("config", None)
        _say_made(build(**vars(given)))

    return Command(help, add_arguments, run_builder)


def _file_argument(parser: ArgumentParser) -> None:
    parser.add_argument("file", type=str, help="the zoo file to read")


def _where_argument(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--where",
        type=str,
        help="take only rows that meet this condition on their metadata, such as "
        "\"step == 86 and activation in ['relu', 'tanh']\"",
    )
    parser.add_argument("--split", type=str, help="take only rows of this split")


def _out_argument(parser: ArgumentParser) -> None:
    parser.add_argument("--out", type=str, required=True, help="the zoo file to make; never overwritten")


def _info(parser: ArgumentParser, options: Namespace) -> None:
    sys.stdout.write(zoo_info(options.file) + "\n")


def _verify(parser: ArgumentParser, options: Namespace) -> None:
    path, result = options.file, verify_zoo(options.file)
    if not result.ok:
        raise ZooError(
            f"{path}: {len(result.failed)} of {result.rows} rows do not match their hash: "
            f"{_first(result.failed)}. "
            "Their bytes changed after they were written: copy the file again, or build it anew."
        )
    sys.stdout.write(f"{path}: all {result.rows} rows match their hashes\n")
    if result.not_finite:
        sys.stdout.write(
            f"{path}: {len(result.not_finite)} rows hold values that are not finite, as they were written: "
            f"{_first(result.not_finite)}\n"
        )


def _cat_arguments(parser: ArgumentParser) -> None:
    _file_argument(parser)
    _where_argument(parser)
    parser.add_argument(
        "--columns",
        type=list[str] | None,
        help="metadata columns to print, or row, architecture, hash: [a,b]; all by default",
    )
    parser.add_argument("--format", type=str, default="jsonl", help="jsonl or csv")


def _cat(parser: ArgumentParser, options: Namespace) -> None:
    zoo = Zoo.open(options.file)
    rows = None if options.split is None else zoo.split(options.split)
    if options.where is not None:
        found = zoo.where(options.where)
        rows = found if rows is None else np.intersect1d(rows, found)
    try:
        for line in row_lines(zoo, rows, columns=options.columns, form=options.format):
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _subset_arguments(parser: ArgumentParser) -> None:
    _file_argument(parser)
    _out_argument(parser)
    _where_argument(parser)
    parser.add_argument("--dedupe", action="store_true", help="of equal networks, keep the first")


def _subset(parser: ArgumentParser, options: Namespace) -> None:
    zoo = Zoo.open(options.file)
    rows = None if options.split is None else zoo.split(options.split)
    made = subset_zoo(zoo, options.out, rows, condition=options.where, dedupe=options.dedupe)
    _say_made(made, f" of {len(zoo)}")


def _merge_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "files", type=str, nargs="+", help="the zoo files to join, in the order of their rows"
    )
    _out_argument(parser)
    parser.add_argument(
        "--distinct",
        type=list[str],
        default=[],
        help="columns such as [model,image] whose values mean something else in each file: numbered anew",
    )
    parser.add_argument(
        "--common_columns", action="store_true", help="leave out columns that not all files have"
    )


def _merge(parser: ArgumentParser, options: Namespace) -> None:
    zoos = [Zoo.open(file) for file in options.files]
    _say_made(merge_zoos(zoos, options.out, distinct=options.distinct, common_columns=options.common_columns))


def _split_arguments(parser: ArgumentParser) -> None:
    _file_argument(parser)
    _out_argument(parser)
    parser.add_argument(
        "--by",
        type=list[str] | str,
        required=True,
        help="column whose equal values stay together, such as model or image; or several, [lr,width], whose "
        "values together name a group",
    )
    parser.add_argument(
        "--fractions",
        type=dict[str, float],
        default={"train": 0.7, "val": 0.1, "test": 0.2},
        help="share of the groups for each split: '{train: 0.8, test: 0.2}'",
    )
    parser.add_argument(
        "--stratify", type=str, help="column whose values each split holds in the same proportions"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the shuffle")


def _split(parser: ArgumentParser, options: Namespace) -> None:
    zoo = Zoo.open(options.file)
    made = split_zoo(
        zoo, options.out, options.fractions, by=options.by, stratify=options.stratify, seed=options.seed
    )
    _say_made(made)


def _first(rows: Sequence[int]) -> str:
    return ", ".join(map(str, rows[:20])) + (" …" if len(rows) > 20 else "")


def _say_made(zoo: Zoo, more: str = "") -> None:
    sys.stdout.write(f"{zoo.path}: {len(zoo)}{more} networks, fingerprint {zoo.fingerprint}\n")


COMMANDS = {
    "build": _builder("fit a network to each image and store them", build_inr_zoo),
    "build-classifiers": _builder(
        "train classifiers on labelled images and store their checkpoints", build_classifier_zoo
    ),
    "build-language": _builder(
        "train language models of characters and store their checkpoints", build_language_zoo
    ),
    "build-phases": _builder(
        "train classifiers on a grid of widths and batch sizes and measure the loss around them",
        build_phase_zoo,
    ),
    "info": Command("print what a zoo holds", _file_argument, _info),
    "verify": Command("check every network against its hash", _file_argument, _verify),
    "cat": Command("print rows with their metadata as JSON lines or CSV", _cat_arguments, _cat),
    "subset": Command("copy some rows into a zoo of their own", _subset_arguments, _subset),
    "merge": Command("put the rows of several zoos into one", _merge_arguments, _merge),
    "split": Command("copy a zoo with other splits", _split_arguments, _split),
    "heatmaps": Command(zoo_heatmaps.HELP, zoo_heatmaps.arguments, zoo_heatmaps.run),
    "import": Command(zoo_import.IMPORT_HELP, zoo_import.import_arguments, zoo_import.run_import),
    "export": Command(zoo_import.EXPORT_HELP, zoo_import.export_arguments, zoo_import.run_export),
    "push": Command(zoo_hub.PUSH_HELP, zoo_hub.push_arguments, zoo_hub.run_push),
    "pull": Command(zoo_hub.PULL_HELP, zoo_hub.pull_arguments, zoo_hub.run_pull),
}
