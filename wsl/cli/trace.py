"""``trace``: the specification of a module that is named on the command line."""

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import torch
from jsonargparse import ArgumentParser
from torch import nn

from wsl import trace, verify
from wsl.cli.failures import CommandError


def run(arguments: Sequence[str]) -> int:
    """Build the module, trace it on random inputs, and print the specification."""
    parser = ArgumentParser(
        prog="python -m wsl trace",
        exit_on_error=False,
        description="Print the weight-space specification of a module. Imports and runs the code it names.",
    )
    parser.add_argument(
        "module", type=str, help="import path of an nn.Module class or a function, package.module:Name"
    )
    parser.add_argument("--arguments", type=dict[str, Any], default={}, help="its keyword arguments, as JSON")
    parser.add_argument(
        "--shape", type=list[list[int]], required=True, help="shape of each input, e.g. [[8, 3, 32, 32]]"
    )
    parser.add_argument("--strict", type=bool, default=False, help="refuse operators that are not known")
    parser.add_argument("--verify", type=bool, default=False, help="prove the specification by numbers, too")
    options = parser.parse_args(list(arguments[1:]))
    if wrong := [shape for shape in options.shape if min(shape, default=1) < 1]:
        raise CommandError(f"--shape {wrong[0]} has a size below 1; give sizes as in [[8, 3, 32, 32]].")
    module = _build(options.module, options.arguments)
    generator = torch.Generator().manual_seed(0)
    inputs = tuple(torch.randn(shape, generator=generator) for shape in options.shape)
    spec = trace(module, inputs, strict=options.strict)
    sys.stdout.write(f"{spec}\n")
    if options.verify:
        sys.stdout.write(f"\n{verify(module, spec, inputs)}\n")
    return 0


def _build(path: str, arguments: dict[str, Any]) -> nn.Module:
    name, colon, attribute = path.partition(":")
    if not (name and colon and attribute):
        raise CommandError(f"{path} is no import path; expected package.module:Name, e.g. wsl.models:Siren.")
    try:
        factory = getattr(importlib.import_module(name), attribute)
    except (ImportError, AttributeError) as err:
        raise CommandError(f"{path} cannot be imported ({err}). Check the spelling and PYTHONPATH.") from err
    try:
        module = factory(**arguments)
    except Exception as err:  # whatever the named code raises on these arguments
        raise CommandError(
            f"{path} does not accept the arguments {arguments}: {type(err).__name__}: {err}. "
            "Give others with --arguments; WSL_TRACEBACK=1 shows where it fails."
        ) from err
    if not isinstance(module, nn.Module):
        raise CommandError(f"{path} gives a {type(module).__name__}, expected an nn.Module.")
    return module
