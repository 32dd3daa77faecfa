"""``learnopt``: files of learned optimizers, described and made of checkpoints."""

import sys
from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace

from wsl.bench import code_version
from wsl.cli.failures import CommandError
from wsl.learnopt import pretrained, read_optimizer

_SUFFIX = ".safetensors"


def run(arguments: Sequence[str]) -> int:
    """Run ``learnopt`` with a subcommand.

    Raises:
        OptimizerFileError: a file holds no optimizer, or cannot hold this one.
        TaskError: the checkpoint holds none.
    """
    parser = ArgumentParser(
        prog="python -m wsl learnopt",
        exit_on_error=False,
        description="Files of learned optimizers; `fit` trains them, and `bench learnopt` compares them.",
    )
    commands = parser.add_subcommands()
    commands.add_subcommand("info", _info_parser(), help="print what a file holds, and its card")
    commands.add_subcommand("export", _export_parser(), help="make a file of a checkpoint of `fit`")
    config = parser.parse_args(list(arguments[1:]))
    {"info": _info, "export": _export}[config.subcommand](config[config.subcommand])
    return 0


def _info(options: Namespace) -> None:
    sys.stdout.write(f"{read_optimizer(options.file)}\n")


def _export(options: Namespace) -> None:
    from wsl.tasks.optimizer_files import export_optimizer  # imports Lightning, which takes seconds

    out = Path(options.out)
    if out.suffix != _SUFFIX or out.is_dir():
        raise CommandError(f"--out {out} is no file that ends in {_SUFFIX}.")
    export_optimizer(Path(options.ckpt), out, options.about, options.fails, code_version(), options.tasks)
    sys.stdout.write(f"{read_optimizer(out)}\n\n{out} has {out.stat().st_size:,} bytes.\n")


def _info_parser() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    known = ", ".join(pretrained()) or "none yet"
    parser.add_argument("file", type=str, help=f"a file, or the name of one in the package: {known}")
    return parser


def _export_parser() -> ArgumentParser:
    parser = ArgumentParser(
        exit_on_error=False,
        description="Write the optimizer of a checkpoint of wsl.tasks.LearnedOptimization, without lanes and "
        "state, to a file that wsl.learnopt.load reads, with a card for those who use it.",
    )
    parser.add_argument("--ckpt", type=str, required=True, help="runs/NAME/checkpoints/best.ckpt")
    parser.add_argument("--out", type=str, required=True, help=f"the file to write, {_SUFFIX}")
    parser.add_argument("--about", type=str, required=True, help="card: what it is, in a line")
    parser.add_argument(
        "--fails",
        type=str,
        required=True,
        help="card: where it does worse than tuned optimizers, or diverges",
    )
    parser.add_argument(
        "--tasks",
        type=str,
        default=None,
        help="card: what it was trained on; by default what the run's config.yaml says under data",
    )
    return parser
