"""Files of optimizers: safetensors whose metadata say what the numbers belong to."""

import inspect
import json
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import wsl
from wsl._files import write_whole
from wsl.learnopt._card import Card, OptimizerFileError, printable, shortened
from wsl.learnopt._stored import FORMAT, KEY, KINDS, OptimizerFile, parse_file
from wsl.learnopt._torch_optimizer import TorchOptimizer
from wsl.learnopt.optimizers import Optimizer
from wsl.spec import SpecError, WeightSpec
from wsl.zoo import ZooError
from wsl.zoo.formats import read_safetensors, write_safetensors

SUFFIX = ".safetensors"
_TYPES = (torch.float16, torch.float32, torch.float64)
_LARGEST_FILE = 64 << 20


def save(optimizer: Optimizer, path: str | Path, card: Card) -> None:
    """Write an optimizer whose constructor was given plain values, and a specification if it takes one.

    Parameters keep their type. The file appears whole or not at all, whoever else writes it.

    Raises:
        OptimizerFileError: another class than those of this package, arguments that are no plain values,
            parameters that are not finite or in bfloat16, or the system refuses.
    """
    kind = type(optimizer)
    if KINDS.get(kind.__name__) is not kind:
        raise OptimizerFileError(
            f"{kind.__name__} is not one of {', '.join(KINDS)}, which files hold: they name a class and say "
            "plain values, from which it is made again. Keep the state_dict() of other ones with torch.save, "
            "and make them in code; of optimizers within others, save the inner one."
        )
    positional, named = optimizer.given
    bound = inspect.signature(type(optimizer).__init__).bind(optimizer, *positional, **named)
    bound.apply_defaults()
    _, *pairs = bound.arguments.items()  # the first is the optimizer itself
    arguments = dict(pairs)
    spec = arguments.pop("spec", None)
    if isinstance(spec, WeightSpec):
        spec = str(spec)
    arrays = {name: _array(name, value) for name, value in optimizer.state_dict().items()}
    entries = {
        "format": FORMAT,
        "kind": kind.__name__,
        "arguments": {name: _plain(name, value) for name, value in arguments.items()},
        "spec": spec,
        "card": asdict(card),
        "version": wsl.__version__,
    }
    metadata = {KEY: json.dumps(entries)}
    parse_file(metadata, {name: torch.from_numpy(value) for name, value in arrays.items()})
    widest_first = dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))
    target = Path(path)
    partial = target.with_name(f"{target.name}.{uuid.uuid4().hex}.partial")

    def write(partial: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_safetensors(partial, widest_first, metadata)

    try:
        write_whole(target, write, partial)
    except OSError as err:
        raise OptimizerFileError(
            f"{target} could not be written: {err.strerror or err}. A file that was there before still is: "
            "make room or fix the permissions, and save again."
        ) from err
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def read_optimizer(source: str | Path) -> OptimizerFile:
    """Read a file, or one of :func:`pretrained` by its name.

    Raises:
        OptimizerFileError: there is none, or it holds something else, or it is damaged.
    """
    path = _find(source)
    try:
        if path.is_file() and path.stat().st_size > _LARGEST_FILE:
            raise OptimizerFileError(f"{path} is larger than {_LARGEST_FILE} bytes, which no optimizer is.")
        arrays, metadata = read_safetensors(path)
        return parse_file(metadata, {name: torch.from_numpy(value.copy()) for name, value in arrays.items()})
    except ZooError as err:
        raise OptimizerFileError(printable(str(err))) from err
    except OptimizerFileError as err:
        raise OptimizerFileError(f"{path}: {err}") from err


def load(
    source: str | Path,
    module: nn.Module,
    example_inputs: Any,
    params: Iterable[Any] | None = None,
    *,
    lr: float = 1.0,
    weight_decay: float = 0.0,
) -> TorchOptimizer:
    """The optimizer of a file, or one of :func:`pretrained`, ready to train a module.

    Args:
        source: path, or name.
        module, example_inputs, params, lr, weight_decay: as of :class:`TorchOptimizer`.

    Raises:
        OptimizerFileError: as :func:`read_optimizer`, or what it holds does not fit together.
        SpecError: its parameters depend on an architecture, and the module has another one.
    """
    try:
        made = read_optimizer(source).build()
        return TorchOptimizer(made, module, example_inputs, params, lr=lr, weight_decay=weight_decay)
    except SpecError as err:
        raise SpecError(f"{source} does not fit the module: {err}") from err


def pretrained() -> dict[str, Path]:
    """The optimizers that come with the package, by name."""
    folder = Path(str(files("wsl.learnopt"))) / "pretrained"
    return {path.stem: path for path in sorted(folder.glob(f"*{SUFFIX}"))}


def _find(source: str | Path) -> Path:
    path, known = Path(source), pretrained()
    try:
        if path.is_file():
            return path
        if str(source) in known:  # even where a folder, such as that of a run, has this name
            return known[str(source)]
        if path.suffix == SUFFIX or path.exists():
            return path
    except OSError as err:
        raise OptimizerFileError(f"{shortened(source)} cannot be read: {err.strerror}.") from err
    raise OptimizerFileError(
        f"there is no file {shortened(source)}, and no optimizer of this name among those that come with "
        f"the package: {', '.join(known) or 'none'}. Files end in {SUFFIX}."
    )


def _array(name: str, value: torch.Tensor) -> np.ndarray:
    """The values of a parameter or constant, in its type."""
    if value.dtype not in _TYPES:
        raise OptimizerFileError(
            f"{name} is of {value.dtype}, and files hold float16, float32 and float64. "
            "Call optimizer.float(), and save it then."
        )
    if not value.isfinite().all():
        raise OptimizerFileError(f"{name}: values that are not finite, with which nothing trains.")
    found: np.ndarray = value.detach().cpu().contiguous().numpy()
    return found


def _plain(name: str, value: Any) -> Any:
    """``value`` as JSON has it, if it consists of numbers, texts, lists, dictionaries and None."""
    if isinstance(value, list | tuple):
        return [_plain(name, part) for part in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(name, part) for key, part in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise OptimizerFileError(
        f"{name} is a {type(value).__name__}, and files hold numbers, texts, lists, dictionaries and None, "
        "but no code and no optimizers within others. Make the optimizer without it; in place of a schedule "
        "give one of torch to the TorchOptimizer, whose lr multiplies every move."
    )
