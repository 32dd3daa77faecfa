"""``predict --weights``: what a trained task says of one network of the user's own."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jsonargparse import ArgumentParser
from torch import nn

from wsl.cli.failures import CommandError
from wsl.cli.trace import build_module, example_inputs
from wsl.tasks.own_network import load_task, predict_network
from wsl.zoo.formats import read_state


def run(arguments: Sequence[str]) -> int:
    """Load the network's weights into its module, and print what the task predicts."""
    options = _parser().parse_args(list(arguments[1:]))
    inputs, keywords = example_inputs(options.input)
    module = build_module(options.module, options.arguments).eval()
    load_weights(module, Path(options.weights))
    task = load_task(Path(options.ckpt))
    found = predict_network(task, module, inputs, keywords)
    lines = (f"{_name(name, task.label)}  {_shown(value)}\n" for name, value in found.items())
    sys.stdout.write("".join(lines))
    return 0


def load_weights(module: nn.Module, path: Path) -> None:
    """Put the tensors of a safetensors file, or of a state dict by ``torch.save``, into a module.

    Raises:
        ZooError: the file is damaged, or holds anything but tensors.
        CommandError: their names or shapes are not the module's.
    """
    state = {name: torch.from_numpy(np.array(array)) for name, array in read_state(path).items()}
    try:
        module.load_state_dict(state)
    except RuntimeError as err:
        raise CommandError(
            f"{path} does not hold the weights of {type(module).__name__}: {' '.join(str(err).split())} "
            "Name the module that they were trained in with --module and --arguments."
        ) from err


def _name(name: str, label: str) -> str:
    """What is predicted is of the label, by its name; embeddings are not."""
    return f"{name} of {label}" if label and name in ("predictions", "probabilities") else name


def _shown(value: torch.Tensor) -> str:
    return " ".join(f"{float(number):.4f}" for number in value.flatten())


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="python -m wsl predict",
        exit_on_error=False,
        description="Print what a trained task predicts for one network, e.g. its test accuracy. Imports and "
        "runs the code that --module names.",
    )
    parser.add_argument(
        "--ckpt", type=str, required=True, help="checkpoint of the task: runs/NAME/…/best.ckpt"
    )
    parser.add_argument(
        "--weights", type=str, required=True, help="the network: safetensors, or a state dict by torch.save"
    )
    parser.add_argument(
        "--module",
        type=str,
        required=True,
        help="import path of its nn.Module class, or of a function that makes one, package.module:Name",
    )
    parser.add_argument("--arguments", type=dict[str, Any], default={}, help="its keyword arguments, as JSON")
    parser.add_argument(
        "--input",
        action="append",
        type=str,
        required=True,
        help="sizes of an input that it runs on, as in 1,3,32,32, and its type if it is not float32, as in "
        "2,16:int64; once for each positional input, and with a name for others, as in mask=2,16:bool",
    )
    return parser
