"""``zoo import`` and ``zoo export``: public formats of zoos."""

import logging
import sys
from pathlib import Path
from typing import Any, Literal

from jsonargparse import ArgumentParser, Namespace

from wsl.cli.failures import CommandError
from wsl.cli.trace import build_module, example_inputs
from wsl.spec import SpecError, WeightSpec
from wsl.zoo import ForwardDefinition, Zoo
from wsl.zoo.formats import FORMATS, DescribedModule, ImportOptions, export_zoo, import_zoo

IMPORT_HELP = "read a zoo of a public format into a zoo file"
EXPORT_HELP = "write a zoo file in a public format"
_LOG = logging.getLogger(__name__)


def _add_format(parser: ArgumentParser) -> None:
    kinds = Literal[tuple(FORMATS)]  # type: ignore[valid-type]
    summaries = "; ".join(f"{name}: {form.summary}" for name, form in FORMATS.items())
    parser.add_argument("format", type=kinds, metavar="FORMAT", help=summaries)


def import_arguments(parser: ArgumentParser) -> None:
    """Arguments of ``zoo import``."""
    _add_format(parser)
    parser.add_argument("source", type=str, help="the folder to read; it runs no code of its files")
    parser.add_argument("--out", type=str, required=True, help="zoo file to make; never overwritten")
    parser.add_argument(
        "--module",
        type=str,
        default=None,
        help="import path of the networks' module, package.module:Name, for state_dicts, safetensors and "
        "modelzoo_dataset: it is imported, traced and recorded, so that the networks can run",
    )
    parser.add_argument("--arguments", type=dict[str, Any], default={}, help="its keyword arguments, as JSON")
    parser.add_argument(
        "--input",
        action="append",
        type=str,
        default=[],
        help="sizes of its inputs, as in wsl trace: 1,3,32,32",
    )
    parser.add_argument(
        "--spec",
        type=str,
        default=None,
        help="file with the networks' specification, text or JSON, for state_dicts and safetensors; without "
        "it and a module no symmetry is assumed",
    )
    parser.add_argument(
        "--labels",
        type=str,
        default=None,
        help="CSV of metadata with a column `file`, for state_dicts, safetensors and lora; by default "
        "labels.csv in the folder",
    )
    parser.add_argument(
        "--grid",
        type=str,
        default=None,
        help="pixels that INRs are rendered on, as in 28,28, if not the usual ones",
    )
    parser.add_argument(
        "--w0",
        type=float,
        default=None,
        help="factor inside the sines of SIRENs, for nef, if its files lack it",
    )


def run_import(parser: ArgumentParser, options: Namespace) -> None:
    """Import and say what was made; what could not be kept goes to the log."""
    form = FORMATS[options.format]
    given = ImportOptions(
        module=_module(options),
        spec=None if options.spec is None else _spec(Path(options.spec)),
        labels=None if options.labels is None else Path(options.labels),
        grid=None if options.grid is None else _grid(options.grid),
        w0=options.w0,
    )
    zoo, notes = import_zoo(form, options.source, options.out, given)
    _log_notes(form.name, notes)
    several = f" of {len(zoo.architectures)} architectures" if len(zoo.architectures) > 1 else ""
    sys.stdout.write(f"{zoo.path}: {len(zoo)} networks{several}, fingerprint {zoo.fingerprint}\n")


def export_arguments(parser: ArgumentParser) -> None:
    """Arguments of ``zoo export``."""
    _add_format(parser)
    parser.add_argument("file", type=str, help="the zoo file to read")
    parser.add_argument("--out", type=str, required=True, help="folder to make; never overwritten")


def run_export(parser: ArgumentParser, options: Namespace) -> None:
    """Export and say what was made; what the format cannot hold goes to the log."""
    form, zoo = FORMATS[options.format], Zoo.open(options.file)
    notes = export_zoo(zoo, form, options.out)
    _log_notes(form.name, notes)
    sys.stdout.write(f"{Path(options.out).absolute()}: {len(zoo)} networks as {form.name}\n")


def _log_notes(name: str, notes: list[str]) -> None:
    for note in notes:
        _LOG.warning("%s: %s", name, note)


def _module(options: Namespace) -> DescribedModule | None:
    if options.module is None:
        if options.arguments or options.input:
            raise CommandError("--arguments and --input describe a module; name it with --module.")
        return None
    if not options.input:
        raise CommandError("--module needs --input: the sizes of its inputs, as in --input 1,3,32,32.")
    inputs, keywords = example_inputs(options.input)
    module = build_module(options.module, options.arguments).eval()
    forward = ForwardDefinition(options.module, options.arguments)
    return DescribedModule(module, inputs, keywords, forward)


def _spec(path: Path) -> WeightSpec:
    try:
        text = path.read_text(encoding="utf-8")
        return WeightSpec.from_json(text) if text.lstrip().startswith("{") else WeightSpec.parse(text)
    except UnicodeDecodeError as err:
        raise CommandError(f"--spec {path} is no text in UTF-8 ({err}).") from err
    except SpecError as err:
        raise CommandError(f"--spec {path}: {err}") from err


def _grid(text: str) -> tuple[int, ...]:
    sizes = text.split(",")
    if not all(size.isascii() and size.isdecimal() and 0 < int(size) < 10_000 for size in sizes):
        raise CommandError(f"--grid {text} is no list of sizes; give them as in 28,28.")
    return tuple(map(int, sizes))
