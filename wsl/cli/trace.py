"""``trace``: the specification of a module that is named on the command line."""

import importlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jsonargparse import ArgumentParser
from torch import Tensor, nn

from wsl import trace, verify
from wsl.cli.failures import CommandError

_INPUT = re.compile(r"(?P<sizes>\d+(?:,\d+)*)(?::(?P<dtype>\w+))?")
_PICTURES = (".svg", ".png")


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
        "--input",
        action="append",
        type=str,
        required=True,
        help="sizes of an input, drawn at random, as in 1,3,32,32, and its type if it is not float32, as in "
        "2,16:int64; once for each positional input",
    )
    parser.add_argument("--strict", type=bool, default=False, help="refuse operators that are not known")
    parser.add_argument("--verify", type=bool, default=False, help="prove the specification by numbers, too")
    parser.add_argument("--json", type=str, default=None, help="file to write the specification to, as JSON")
    parser.add_argument("--draw", type=str, default=None, help="picture to draw, .svg or .png")
    options = parser.parse_args(list(arguments[1:]))
    if options.draw is not None and Path(options.draw).suffix.lower() not in _PICTURES:
        raise CommandError(f"--draw {options.draw} is no {' or '.join(_PICTURES)} file; name one of these.")
    inputs = _inputs(options.input)
    module = _build(options.module, options.arguments)
    spec = trace(module, inputs, strict=options.strict)
    sys.stdout.write(f"{spec}\n")
    if options.json is not None:
        Path(options.json).write_text(spec.to_json() + "\n", encoding="utf-8")
    if options.draw is not None:
        from wsl.graph import draw  # slow to import

        draw(spec, options.draw)
    if options.verify:
        sys.stdout.write(f"\n{verify(module, spec, inputs)}\n")
    return 0


def _inputs(texts: Sequence[str]) -> tuple[Tensor, ...]:
    """Random tensors: normal, or 0 and 1 for integers, which index any table of two rows or more."""
    generator = torch.Generator().manual_seed(0)
    inputs = []
    for text in texts:
        match = _INPUT.fullmatch(text)
        dtype = getattr(torch, (match and match["dtype"]) or "float32", None)
        if match is None or not isinstance(dtype, torch.dtype):
            raise CommandError(
                f"--input {text} is no input; give its sizes, as in 1,3,32,32, and after a colon the name of "
                "a torch type, as in 2,16:int64."
            )
        sizes = [int(size) for size in match["sizes"].split(",")]
        if min(sizes) < 1:
            raise CommandError(f"--input {text} has a size below 1; give sizes as in 1,3,32,32.")
        if dtype.is_floating_point or dtype.is_complex:
            drawn = torch.randn(sizes, generator=generator)
        else:
            drawn = torch.randint(0, 2, sizes, generator=generator)
        inputs.append(drawn.to(dtype))
    return tuple(inputs)


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
