"""``zoo build``, ``zoo info`` and ``zoo verify``."""

import sys
from collections.abc import Sequence

from jsonargparse import ArgumentParser

from wsl.zoo import ZooError, verify_zoo, zoo_info
from wsl.zoo.inr import build_inr_zoo


def run(arguments: Sequence[str]) -> int:
    """Run ``zoo`` with a subcommand.

    Raises:
        ZooError: the file or the images are at fault, or rows of a verified zoo are damaged.
    """
    parser = ArgumentParser(
        prog="python -m wsl zoo", exit_on_error=False, description="Make and inspect zoos."
    )
    commands = parser.add_subcommands()
    commands.add_subcommand("build", _build_parser(), help="fit a network to each image and store them")
    commands.add_subcommand("info", _file_parser("info"), help="print what a zoo holds")
    commands.add_subcommand("verify", _file_parser("verify"), help="check every network against its hash")
    config = parser.parse_args(list(arguments[1:]))
    options = config[config.subcommand]
    if config.subcommand == "build":
        given = _build_parser().instantiate(options)
        given.pop("config", None)
        zoo = build_inr_zoo(**vars(given))
        sys.stdout.write(f"{zoo.path}: {len(zoo)} networks, fingerprint {zoo.fingerprint}\n")
    elif config.subcommand == "info":
        sys.stdout.write(zoo_info(options.file) + "\n")
    else:
        _verify(options.file)
    return 0


def _verify(path: str) -> None:
    result = verify_zoo(path)
    if not result.ok:
        shown = ", ".join(map(str, result.failed[:20])) + (" …" if len(result.failed) > 20 else "")
        raise ZooError(
            f"{path}: {len(result.failed)} of {result.rows} rows do not match their hash: {shown}. "
            "Their bytes changed after they were written: copy the file again, or build it anew."
        )
    sys.stdout.write(f"{path}: all {result.rows} rows match their hashes\n")


def _build_parser() -> ArgumentParser:
    parser = ArgumentParser(
        exit_on_error=False, description="Fit an INR to each image and store them as a zoo."
    )
    parser.add_argument("-c", "--config", action="config", help="YAML file with any of the options below.")
    parser.add_function_arguments(build_inr_zoo)
    return parser


def _file_parser(command: str) -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument(
        "file", type=str, help=f"the zoo file to {'describe' if command == 'info' else 'check'}"
    )
    return parser
