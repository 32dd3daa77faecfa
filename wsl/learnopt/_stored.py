"""What a file of an optimizer says, checked before anything is made of it. No code comes from a file."""

import json
import math
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from wsl.learnopt._card import LONGEST, Card, OptimizerFileError, printable, shortened
from wsl.learnopt._recipes import (
    Celo2Optimizer,
    DeepSetsOptimizer,
    GraphOptimizer,
    NFNOptimizer,
    SmallFCOptimizer,
    UNFOptimizer,
)
from wsl.learnopt.optimizers import SGD, Adam, AdamW, Lion, Muon, Optimizer
from wsl.spec import WeightSpec

_GIVEN = (
    SGD, Adam, AdamW, Lion, Muon,
    Celo2Optimizer, DeepSetsOptimizer, GraphOptimizer, NFNOptimizer, SmallFCOptimizer, UNFOptimizer,
)  # fmt: skip
KINDS: dict[str, type[Optimizer]] = {kind.__name__: kind for kind in _GIVEN}
"""Classes that files may name."""
KEY, FORMAT = "wsl.learnopt", 1
_LARGEST_METADATA, _LARGEST_NUMBER, _DEEPEST = 1 << 20, 1 << 20, 8
_ENTRIES: dict[str, Any] = {
    "format": int,
    "kind": str,
    "arguments": dict,
    "spec": str | None,
    "card": dict,
    "version": str,
}


@dataclass(frozen=True)
class OptimizerFile:
    """What a file holds.

    Args:
        kind: name of the class.
        arguments: of its constructor, without the specification.
        spec: text of the specification that it was trained on, if its constructor takes one.
        card: for people.
        version: of the package that wrote it.
        tensors: parameters and constants, by name.
    """

    kind: str
    arguments: dict[str, Any]
    spec: str | None
    card: Card
    version: str
    tensors: dict[str, Tensor]

    def build(self) -> Optimizer:
        """The optimizer, on the architecture that it was trained on; torch's random state stays as it is.

        Raises:
            OptimizerFileError: what the file holds does not fit together.
        """
        try:
            specs = [] if self.spec is None else [WeightSpec.parse(self.spec)]
            with torch.random.fork_rng(devices=[]):
                with torch.device(
                    "meta"
                ):  # shapes alone, so that no file asks for memory that it does not fill
                    _check_tensors(self.tensors, KINDS[self.kind](*specs, **self.arguments))
                made = KINDS[self.kind](*specs, **self.arguments)
        except OptimizerFileError:
            raise
        except Exception as err:  # whatever constructors raise on arguments of a damaged or hostile file
            raise OptimizerFileError(
                f"no {self.kind} can be made of the arguments {shortened(self.arguments)}: {shortened(err)}."
            ) from err
        for name, value in made.state_dict(keep_vars=True).items():
            value.data = value.data.to(self.tensors[name].dtype)  # as it was written
        made.load_state_dict(self.tensors)
        return made.requires_grad_(False)

    def __str__(self) -> str:
        count = sum(value.numel() for value in self.tensors.values())
        given = ", ".join(f"{shortened(name)}={shortened(value)}" for name, value in self.arguments.items())
        spec = "" if self.spec is None else f"\n\nThe architecture that it was trained on:\n{self.spec}"
        numbers = f"{count:,} numbers with the fixed ones"
        return f"{self.kind}({given}), {numbers}, written by wsl {self.version}\n\n{self.card}{spec}"


def parse_file(metadata: dict[str, str], tensors: dict[str, Tensor]) -> OptimizerFile:
    """What metadata and tensors of a file say; raises OptimizerFileError."""
    if KEY not in metadata:
        raise OptimizerFileError(f"no optimizer of wsl.learnopt.save: the metadata have no entry {KEY!r}.")
    if len(metadata[KEY]) > _LARGEST_METADATA:
        raise OptimizerFileError(f"the metadata are longer than {_LARGEST_METADATA} characters.")
    try:
        entries = json.loads(metadata[KEY])
    except (ValueError, RecursionError) as err:
        raise OptimizerFileError(
            f"the metadata are no JSON ({shortened(err)}). Copy the file again."
        ) from err
    if not isinstance(entries, dict) or entries.keys() != _ENTRIES.keys():
        raise OptimizerFileError(
            f"the metadata do not have the entries {', '.join(_ENTRIES)}, and only these."
        )
    for name, kind in _ENTRIES.items():
        value = entries[name]
        if not isinstance(value, kind):
            raise OptimizerFileError(f"metadata: {name} is a {type(value).__name__}.")
        if isinstance(value, str) and printable(value) != value:
            raise OptimizerFileError(f"metadata: {name} holds control characters.")
    if (version := entries.pop("format")) != FORMAT:
        raise OptimizerFileError(
            f"the format has the version {version}, and this code reads {FORMAT}. Use another version of wsl."
        )
    if entries["kind"] not in KINDS:
        raise OptimizerFileError(
            f"it holds a {shortened(entries['kind'])}; files hold optimizers of wsl: {', '.join(KINDS)}."
        )
    arguments, card = entries.pop("arguments"), entries.pop("card")
    for name, value in arguments.items():
        _check_argument(name, value)
    if isinstance(layers := arguments.get("layers"), int) and layers > len(tensors):
        raise OptimizerFileError(f"the argument layers is {layers}, and the file has {len(tensors)} tensors.")
    if card.keys() != {field.name for field in fields(Card)}:
        raise OptimizerFileError("the card does not have the entries of one.")
    if bad := [name for name, value in tensors.items() if not value.isfinite().all()]:
        raise OptimizerFileError(f"{shortened(', '.join(bad))}: values that are not finite.")
    return OptimizerFile(arguments=arguments, card=Card(**card), tensors=tensors, **entries)


def _check_argument(name: str, value: Any, depth: int = 0) -> None:
    """Refuse numbers and lists that only serve to use up time or memory."""
    if depth > _DEEPEST or (isinstance(value, list | dict | str) and len(value) > LONGEST):
        raise OptimizerFileError(f"the argument {shortened(name)} is larger than that of any optimizer.")
    if isinstance(value, int) and abs(value) > _LARGEST_NUMBER:
        raise OptimizerFileError(
            f"the argument {shortened(name)} is {shortened(value)}, larger than that of any."
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise OptimizerFileError(f"the argument {shortened(name)} is {value}.")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_argument(name, part, depth + 1)


def _check_tensors(found: dict[str, Tensor], wanted: Optimizer) -> None:
    ours = {name: tuple(value.shape) for name, value in wanted.state_dict().items()}
    theirs = {name: tuple(value.shape) for name, value in found.items()}
    if others := [name for name, value in found.items() if not value.is_floating_point()]:
        raise OptimizerFileError(f"{shortened(', '.join(others))}: numbers of a type that no optimizer has.")
    if wrong := sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)):
        name = wrong[0]
        raise OptimizerFileError(
            f"{len(wrong)} tensors do not fit the arguments: {shortened(name)} has the shape "
            f"{theirs.get(name)}, expected {ours.get(name)}. The file is damaged, or of another version."
        )
