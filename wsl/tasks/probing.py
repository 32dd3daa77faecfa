"""How the networks of a zoo run, for encoders that probe them."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from wsl import encoders
from wsl.encoders import Encoder, reads_any_spec, reads_probed
from wsl.nn import real_parts
from wsl.spec import WeightSpec
from wsl.tasks.factories import TaskError
from wsl.zoo import ForwardDefinition, ZooError

Definitions = Iterable[tuple[WeightSpec, ForwardDefinition]]

_COMPARED = 64  # example inputs at which networks of equal specifications are compared


def to_plain(definitions: Definitions) -> list[list[Any]]:
    """Plain values, for checkpoints: the text of each specification and its definition."""
    found = {(str(spec), str(definition)): definition.to_dict() for spec, definition in definitions}
    return [[text, entry] for (text, _), entry in found.items()]


def from_plain(stored: Iterable[tuple[str, Mapping[str, Any]]]) -> Definitions:
    """Inverse of :func:`to_plain`."""
    return [(WeightSpec.parse(text), ForwardDefinition.from_dict(entry)) for text, entry in stored]


class ProbedNetworks:
    """The module that networks of each architecture run as, and example inputs to start probes from.

    Args:
        definitions: how the networks of each architecture run; at least one.
        probes: number of example inputs.
        examples: inputs that the networks are meant for, ``(samples, ...)``, if there are any.
        alike: all networks must answer with as many numbers.

    Raises:
        TaskError: the zoo does not say how its networks run or on what, networks that run differently have
            equal specifications, networks do not run on the inputs of the first ones or answer otherwise, or
            there are fewer examples than probes.
    """

    def __init__(
        self, definitions: Definitions, probes: int, examples: Tensor | None = None, alike: bool = False
    ) -> None:
        if examples is not None and len(examples) < probes:
            raise TaskError(
                f"probes is {probes}, but there are only {len(examples)} images to start them from.\n"
                "  Give more with data.images, or lower model.probes."
            )
        self._probes, self._alike = probes, alike
        self._definitions: dict[WeightSpec, ForwardDefinition] = {}
        self._given: dict[WeightSpec, nn.Module] = {}
        first, *others = definitions
        self._definitions[first[0]] = first[1]
        self.examples = self._examples(*first) if examples is None else examples
        self._answers = self._check_examples(*first)
        self.add(others)

    def add(self, definitions: Definitions) -> None:
        """Take in further architectures; raises as the constructor."""
        for spec, definition in definitions:
            known = self._definitions.setdefault(spec, definition)
            if known is definition:
                self._check_runs(spec)
            elif (known.factory, known.arguments) != (definition.factory, definition.arguments):
                self._check_alike(known, definition)

    @contextmanager
    def given(self, spec: WeightSpec, module: nn.Module) -> Iterator[None]:
        """For a while networks of an architecture run as ``module``, whatever the data say."""
        self._given[spec] = module
        try:
            yield
        finally:
            del self._given[spec]

    def __call__(self, spec: WeightSpec) -> nn.Module:
        """A network of an architecture."""
        if spec in self._given:
            return self._given[spec]
        if spec not in self._definitions:
            raise TaskError(
                f"probes is {self._probes}, but nothing says how networks of this architecture run:\n{spec}\n"
                "  Probes run the networks of the data of a run, and those that a checkpoint was trained on."
            )
        try:
            return self._definitions[spec].build()
        except ZooError as err:
            raise TaskError(
                f"probes is {self._probes}, but the networks of the zoo cannot be run: {err}\n"
                "  Set model.probes to 0."
            ) from err

    def _examples(self, spec: WeightSpec, definition: ForwardDefinition) -> Tensor:
        """The coordinates that INRs run on, or images of noise, ``(samples, ...)``."""
        module = self(spec)
        if definition.grid is not None:
            return definition.points()
        make = getattr(module, "example_inputs", None)
        if make is None:
            raise TaskError(
                f"probes is {self._probes}, but the zoo does not say on what its networks run, and "
                f"{definition.factory} has no example_inputs.\n"
                "  Set model.probes to 0; probes need a zoo of INRs, or of networks that take images."
            )
        inputs: Tensor = make(self._probes, torch.Generator().manual_seed(0))
        return inputs

    def _runs(self, spec: WeightSpec) -> int:
        """How many numbers a network answers; on the meta device nothing is computed but shapes."""
        answer = self(spec).to("meta")(self.examples[:1].to("meta"))
        return sum(part.numel() for part in real_parts(answer))

    def _check_examples(self, spec: WeightSpec, definition: ForwardDefinition) -> int:
        try:
            return self._runs(spec)
        except (RuntimeError, TypeError) as err:  # what torch raises on inputs of other shapes
            raise TaskError(
                f"networks of the data, {definition.factory} with {dict(definition.arguments)}, do not run "
                f"on inputs of shape {tuple(self.examples.shape[1:])} ({err}).\n"
                "  Give images of the kind that they were built for with data.images, or none."
            ) from err

    def _check_runs(self, spec: WeightSpec) -> None:
        try:
            answers = self._runs(spec)
        except (RuntimeError, TypeError) as err:
            ours, theirs = next(iter(self._definitions.values())), self._definitions[spec]
            raise TaskError(
                f"probes is {self._probes}, but the data hold networks that take different inputs: those of "
                f"{theirs.factory} with {dict(theirs.arguments)} do not run on the inputs of shape "
                f"{tuple(self.examples.shape[1:])} of {ours.factory} with {dict(ours.arguments)} ({err}).\n"
                "  Set model.probes to 0, or train on networks for the same data."
            ) from err
        if self._alike and answers != self._answers:
            ours, theirs = next(iter(self._definitions.values())), self._definitions[spec]
            raise TaskError(
                f"the data hold networks with different answers: {self._answers} numbers for an input of "
                f"{ours.factory} with {dict(ours.arguments)}, {answers} for one of {theirs.factory} with "
                f"{dict(theirs.arguments)}.\n"
                "  Train on networks with as many classes, or choose an encoder whose parameters do not "
                "depend on them, such as GraphMetanetwork."
            )

    def _check_alike(self, a: ForwardDefinition, b: ForwardDefinition) -> None:
        """The same weights must give the same outputs, as they do with different rates of dropout."""
        one, other = a.build(), b.build()
        if type(one) is type(other):
            other.load_state_dict(one.state_dict())
            with torch.no_grad():
                some = self.examples[:_COMPARED]
                if torch.equal(one(some), other(some)):
                    return
        raise TaskError(
            f"probes is {self._probes}, but networks with equal specifications run differently: as "
            f"{a.factory} with {dict(a.arguments)}, and as {b.factory} with {dict(b.arguments)}.\n"
            "  Set model.probes to 0, or train on one of them."
        )


def check_takes_probes(kind: type[Encoder], probes: int) -> None:
    """Raise TaskError if an encoder class has no probes."""
    if "probes" not in inspect.signature(kind).parameters:
        raise TaskError(
            f"probes is {probes}, but {kind.__name__} has no probe features.\n"
            "  Set model.probes to 0, or choose an encoder that takes them, such as GraphMetanetwork."
        )


def check_reads_any(kind: type[Encoder], probes: int) -> None:
    """Raise TaskError if an encoder class reads one architecture only, with so many probes."""
    reads = reads_probed if probes else reads_any_spec
    if not reads(kind):
        able = [name for name in encoders.__all__ if reads(getattr(encoders, name))]
        way_out = "Set model.probes, or choose" if reads_probed(kind) else "Choose"
        raise TaskError(
            f"{kind.__name__} reads one architecture only, and the data "
            f"hold several.\n  {way_out} an encoder that reads any: {', '.join(able)}."
        )
