"""``trace``: the specification of a module that is named on the command line."""

import importlib
import re
import sys
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from jsonargparse import ArgumentParser
from torch import Tensor, nn

from wsl import trace, verify
from wsl.cli.failures import CommandError

_INPUT = re.compile(r"(?:(?P<name>\w+)=)?(?P<sizes>\d+(?:,\d+)*)(?::(?P<dtype>\w+))?")
_PICTURES = (".svg", ".png")


def run(arguments: Sequence[str]) -> int:
    """Build the module, trace it on random inputs, and print the specification."""
    options = _parser().parse_args(list(arguments[1:]))
    for path in filter(None, (options.json, options.draw)):
        if Path(path).is_dir():
            raise CommandError(f"{path} is a folder; name a file in it.")
    if options.draw is not None and Path(options.draw).suffix.lower() not in _PICTURES:
        raise CommandError(f"--draw {options.draw} is no {' or '.join(_PICTURES)} file; name one of these.")
    inputs, keywords = example_inputs(options.input)
    module = build_module(options.module, options.arguments)
    spec = trace(module, inputs, keywords, strict=options.strict)
    sys.stdout.write(f"{spec}\n")
    if options.verify:
        try:
            sys.stdout.write(f"\n{verify(module, spec, inputs, keywords)}\n")
        except ValueError as err:
            raise CommandError(str(err)) from err
    if options.json is not None:
        Path(options.json).parent.mkdir(parents=True, exist_ok=True)
        Path(options.json).write_text(spec.to_json() + "\n", encoding="utf-8")
    if options.draw is not None:
        from wsl.graph import draw  # slow to import

        draw(spec, options.draw)
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="python -m wsl trace",
        exit_on_error=False,
        description="Print the weight-space specification of a module. Imports and runs the code it names.",
    )
    parser.add_argument(
        "module",
        type=str,
        help="import path of an nn.Module, its class or a function that makes one, package.module:Name",
    )
    parser.add_argument("--arguments", type=dict[str, Any], default={}, help="its keyword arguments, as JSON")
    parser.add_argument(
        "--input",
        action="append",
        type=str,
        required=True,
        help="sizes of an input, drawn at random, as in 1,3,32,32, and its type if it is not float32, as in "
        "2,16:int64; once for each positional input, and with a name for others, as in mask=2,16:bool",
    )
    parser.add_argument("--strict", action="store_true", help="refuse operators that are not known")
    parser.add_argument(
        "--verify", action="store_true", help="prove the specification by numbers before files are written"
    )
    parser.add_argument("--json", type=str, default=None, help="file to write the specification to, as JSON")
    parser.add_argument("--draw", type=str, default=None, help="picture to draw, .svg or .png")
    return parser


def example_inputs(texts: Sequence[str]) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Positional and keyword inputs from texts as in ``mask=2,16:bool``; raises CommandError.

    Values are normal, or 0 and 1 for integers, which index any table of two rows or more.
    """
    generator = torch.Generator().manual_seed(0)
    inputs, keywords = [], {}
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
        if match["name"]:
            keywords[match["name"]] = drawn.to(dtype)
        else:
            inputs.append(drawn.to(dtype))
    return tuple(inputs), keywords


def build_module(path: str, arguments: dict[str, Any]) -> nn.Module:
    """Import what ``package.module:Name`` names and make a module of it; raises CommandError."""
    name, colon, attribute = path.partition(":")
    if not (name and colon and attribute):
        raise CommandError(f"{path} is no import path; expected package.module:Name, e.g. wsl.models:Siren.")
    try:
        found = attrgetter(attribute)(importlib.import_module(name))
    except (ImportError, AttributeError) as err:
        raise CommandError(f"{path} cannot be imported ({err}). Check the spelling and PYTHONPATH.") from err
    except Exception as err:  # whatever the named code raises while it is imported
        raise CommandError(f"{path} cannot be imported ({type(err).__name__}: {err}).") from err
    if isinstance(found, nn.Module) and not arguments:
        return found
    if isinstance(found, nn.Module) or not callable(found):
        what = f"{path} is a {type(found).__name__}"
        raise CommandError(f"{what}, and takes no --arguments; name its class, or a function that makes one.")
    try:
        module = found(**arguments)
    except Exception as err:  # whatever the named code raises on these arguments
        raise CommandError(
            f"{path} does not accept the arguments {arguments}: {type(err).__name__}: {err}. "
            "Give others with --arguments; WSL_TRACEBACK=1 shows where it fails."
        ) from err
    if not isinstance(module, nn.Module):
        raise CommandError(f"{path} gives a {type(module).__name__}, expected an nn.Module.")
    return module
