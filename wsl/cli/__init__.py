"""The command line, ``python -m wsl``: commands are imported when called, and hold no logic of their own."""

import importlib
import logging
import os
import sys
from collections.abc import Sequence

from wsl._memory import keep_freed_memory
from wsl.cli.failures import describe_failure

COMMANDS = {
    "quickstart": ("quickstart", "the whole way on small real data: build a zoo, train, test, draw figures"),
    "zoo": ("zoo", "make, inspect, cut and join zoos of trained networks"),
    "fit": ("training", "train a task on a zoo"),
    "validate": ("training", "evaluate a trained task on the validation split"),
    "test": ("training", "evaluate a trained task on the held-out test split"),
    "predict": ("training", "write a trained task's predictions; with --weights, of a network of your own"),
    "embed": ("embeddings", "write a trained task's embeddings of all networks of its zoo"),
    "probe": ("embeddings", "score a linear model on a run's embeddings"),
    "neighbours": ("embeddings", "print the networks nearest to one, by a run's embeddings"),
    "learnopt": ("learnopt", "describe files of learned optimizers, or make them of checkpoints"),
    "bench": ("bench", "compare encoders on a zoo, or optimizers on tasks, under equal budgets"),
    "report": ("report", "draw the figures of a run, or compare runs on a page"),
    "trace": ("trace", "print the weight-space specification of a module"),
}
DONE, INTERRUPTED, FAULTY_INPUT = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code: 0 done, 1 interrupted by the user, 2 the input or the arguments are at fault (one
        paragraph says so on stderr). Anything else raises, which makes the exit code 1.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(_usage())
        return DONE if arguments else FAULTY_INPUT
    if arguments[0] == "--version":
        sys.stdout.write(f"wsl {importlib.import_module('wsl').__version__}\n")
        return DONE
    command = arguments[0]
    if command not in COMMANDS:
        sys.stderr.write(f"wsl: there is no command {command!r}; choose one of {', '.join(COMMANDS)}.\n")
        return FAULTY_INPUT
    _start_logging()
    keep_freed_memory()
    name = COMMANDS[command][0]
    if command == "predict" and any(word.partition("=")[0] == "--weights" for word in arguments):
        name = "predict_network"
    module = importlib.import_module(f"wsl.cli.{name}")
    try:
        code: int = module.run(arguments)
        return code
    except KeyboardInterrupt:
        sys.stderr.write(f"wsl {command}: interrupted; what was finished by then is kept.\n")
        return INTERRUPTED
    except Exception as err:
        message = describe_failure(err)
        if message is None or os.environ.get("WSL_TRACEBACK"):
            raise
        sys.stderr.write(f"wsl {command}: {message}\n")
        return FAULTY_INPUT


def _start_logging() -> None:
    """This package's messages go to stderr as they are; other packages' warnings keep Python's own form."""
    log = logging.getLogger("wsl")
    log.setLevel(logging.INFO)
    if not log.handlers:
        log.addHandler(logging.StreamHandler())


def _usage() -> str:
    lines = ["usage: python -m wsl COMMAND ...", "", "commands:"]
    lines += [f"  {name:<12}{text}" for name, (_, text) in COMMANDS.items()]
    lines += [
        "",
        "python -m wsl COMMAND --help says more. WSL_TRACEBACK=1 shows where an error came from.",
        "",
    ]
    return "\n".join(lines)
