"""Proof by numbers that a specification holds: the group moves the weights, and the function stays."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from wsl._moves import Move, Place, carriers_of, generators, move_alone, places, redraw_alone
from wsl._randomised import Inputs, Keywords, Output, RandomisedModule, relative_error
from wsl.spec import SpecError, WeightSpec
from wsl.symmetry import apply

TOLERANCE = 1e-10
_FLOAT32_ROUNDING = 1e-5


class SymmetryError(ValueError):
    """A specification claims a symmetry that the function lacks, or one that the check cannot see."""


@dataclass(frozen=True)
class VerifyReport:
    """What :func:`verify` found; printable.

    Args:
        axes: hidden axes that were permuted; the function stayed.
        scalings: scalings that were applied, as ``"h1 positive"``; the function stayed.
        worst_error: largest relative error of any output under any of these moves.
        dull: pairs ``(block key, axis)`` where moving this block alone along the axis changes nothing
            either, so that the check says nothing about it: a key bias before softmax, an unused head.
        untested: hidden axes of size 1, which have no permutations.
        unlisted: buffers of the module that the specification leaves out; randomised, but not moved.
        runs: how often the module ran.
    """

    axes: tuple[str, ...]
    scalings: tuple[str, ...]
    worst_error: float
    dull: tuple[tuple[str, str], ...]
    untested: tuple[str, ...]
    unlisted: tuple[str, ...]
    runs: int

    def __str__(self) -> str:
        counted = (f"{what} x{n}" if n > 1 else what for what, n in Counter(self.scalings).items())
        dull = ", ".join(f"{key} along {axis}" for key, axis in self.dull)
        found = {
            "permuted": ", ".join(self.axes) or "nothing",
            "scaled": ", ".join(counted) or "nothing",
            "dull": dull,
            "": "(moved alone, these change nothing either: the check is blind to them)" if dull else "",
            "size 1": ", ".join(self.untested),
            "not listed": ", ".join(self.unlisted),
        }
        lines = [f"function unchanged to {self.worst_error:.1e} (limit {TOLERANCE:.0e}) in {self.runs} runs"]
        for title, text in found.items():
            wrapped = textwrap.wrap(text, 97, break_long_words=False, break_on_hyphens=False)
            lines += [f"  {title if i == 0 else '':10} {line}" for i, line in enumerate(wrapped)]
        return "\n".join(lines)


def verify(
    module: nn.Module,
    spec: WeightSpec,
    example_inputs: Inputs,
    kwargs: Keywords = None,
    *,
    seed: int = 0,
    output: Output | None = None,
) -> VerifyReport:
    """Check in float64 that every symmetry of ``spec`` leaves the function of ``module`` unchanged.

    Works on a copy in evaluation mode with random state and random inputs (integer inputs are kept); the
    module itself is not touched. Moves everything at once, then each hidden axis alone (by a cycle through
    all its neurons and by a swap of two: together they generate all permutations), then each scaling alone. A
    family is moved everywhere, each member by its own permutation, and at one combination of indices alone.
    Then the teeth: each axis is moved in one block of one tensor only, which should change the output; where
    it does not, the check says nothing about that block, and the report lists it as dull.

    Args:
        example_inputs: a tensor, or a tuple of positional inputs; or a list of such examples.
        kwargs: keyword inputs; with a list of examples, one mapping for all or a list of as many.
        seed: of the random state, inputs and moves.
        output: selects what of the module's output has to be preserved, as ``lambda o: o.logits``; all of it
            if not given.

    Raises:
        TypeError: a module, specification or examples of other types.
        ValueError: a module on the meta device, or one that does not run on the examples.
        SpecError: names or shapes of the module's state and of ``spec`` disagree.
        SymmetryError: an output changes by more than 1e-10 relative, is NaN or is not reproducible; or the
            output does not depend on any tensor that carries some hidden axis.
    """
    if not isinstance(module, nn.Module) or not isinstance(spec, WeightSpec):
        raise TypeError(
            f"expected a torch.nn.Module and its WeightSpec, got {type(module).__name__} and "
            f"{type(spec).__name__}.\n  WeightSpec.parse reads a text, trace() makes one."
        )
    subject = RandomisedModule(module, example_inputs, kwargs, seed, output)
    _matching_state(subject, spec, type(module).__name__)
    subject.settle()
    trial = _Trial(subject, spec, _matching_state(subject, spec, type(module).__name__))
    failures, worst = [], 0.0
    for move in generators(spec, subject.generator, trial.device):
        change = trial.change(apply(spec, move.action, trial.weights))
        worst = max(worst, change.error)
        if change.error > TOLERANCE:
            failures.append((move, change))
    if failures:
        raise SymmetryError(_explain(failures))
    dull = tuple(dict.fromkeys((place.key, place.axis) for place in _dull_places(trial, subject.generator)))
    listed = {subject.canonical[name] for name in spec.tensors}
    return VerifyReport(
        axes=tuple(axis.name for axis in spec.hidden_axes if axis.size > 1),
        scalings=tuple(f"{scaling.axis} {scaling.kind}" for scaling in spec.scalings),
        worst_error=worst,
        dull=dull,
        untested=tuple(axis.name for axis in spec.hidden_axes if axis.size == 1),
        unlisted=tuple(name for name in subject.state if name not in listed),
        runs=trial.runs,
    )


class _Change(NamedTuple):
    error: float
    path: str


class _Trial:
    """The outputs for the unmoved weights, against which those of moved weights are compared."""

    def __init__(self, subject: RandomisedModule, spec: WeightSpec, weights: dict[str, Tensor]) -> None:
        self.spec, self.weights, self.runs = spec, weights, 0
        self.device = next((tensor.device for tensor in weights.values()), torch.device("cpu"))
        self._subject = subject
        firsts = {subject.canonical[name]: name for name in reversed(list(spec.tensors))}.values()
        self.tied = {ref.key for ref in spec.blocks if ref.tensor not in firsts}  # repeat an earlier tensor
        self._expected = self._run(weights)
        if not self._expected:
            raise SymmetryError("the module's output holds no tensors, so there is nothing to compare.")
        for path, value in self._expected.items():
            if value.isnan().any():
                raise SymmetryError(
                    f"{path} holds NaN on the randomised module, so outputs cannot be compared.\n"
                    "  Random parameters or inputs leave the range in which the module is defined (a root of "
                    "a negative number, a division by zero?): try another seed, or constrain the module."
                )
        change = self.change(weights)
        if change.error > TOLERANCE:
            raise SymmetryError(
                f"{change.path} differs by {change.error:.1e} between two runs on the same inputs."
                "\n  The module is no function of its state and inputs: it keeps something between runs."
            )

    def change(self, weights: Mapping[str, Tensor]) -> _Change:
        """The largest relative error of any output; NaN counts as infinite."""
        found = self._run(weights)
        if found.keys() != self._expected.keys():
            return _Change(float("inf"), "the structure of the output")
        errors = {path: relative_error(found[path], value) for path, value in self._expected.items()}
        errors = {path: error if error == error else float("inf") for path, error in errors.items()}
        path = max(errors, key=errors.__getitem__)
        return _Change(errors[path], path)

    def _run(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self.runs += 1
        state: dict[str, Tensor] = {}
        for name, tensor in weights.items():
            state.setdefault(self._subject.canonical[name], tensor[0])  # of tied tensors, the first
        return self._subject(state)


def _matching_state(subject: RandomisedModule, spec: WeightSpec, owner: str) -> dict[str, Tensor]:
    """The state tensors that ``spec`` names, as ``(1, *shape)``, after names and shapes were compared."""
    listed = {subject.canonical.get(name) for name in spec.tensors}
    unknown = [name for name in spec.tensors if name not in subject.canonical]
    missing = [name for name in subject.state if name in subject.parameters and name not in listed]
    if unknown or missing:
        raise SpecError(
            f"the spec and the state of {owner} name different tensors.\n"
            f"  only in the spec: {', '.join(unknown) or 'none'}      "
            f"only in {owner}: {', '.join(missing) or 'none'}\n"
            "  The spec was made for another module; trace() makes one for this module."
        )
    first: dict[str, str] = {}
    for name, tensor in spec.tensors.items():
        twin = first.setdefault(subject.canonical[name], name)
        if spec.tensors[twin].dims != tensor.dims:
            raise SpecError(
                f"{twin} and {name} are one tensor in {owner}, but the spec gives them different axes."
            )
        if _powers(spec, twin) != _powers(spec, name):
            raise SpecError(
                f"{twin} and {name} are one tensor in {owner}, but the spec scales them differently."
            )
    state = {name: subject.state[subject.canonical[name]] for name in spec.tensors}
    spec.check_weights(state, batched=False)
    return {name: tensor.unsqueeze(0) for name, tensor in state.items()}


def _powers(spec: WeightSpec, tensor: str) -> set[tuple[int, str, int | None, int]]:
    """How every scaling acts on the blocks of one tensor."""
    keys = {ref.key: ref.key.removeprefix(tensor) for ref in spec.blocks if ref.tensor == tensor}
    return {
        (index, keys[key], dim, power)
        for index, scaling in enumerate(spec.scalings)
        for key, power, dim in scaling.exponents
        if key in keys
    }


def _dull_places(trial: _Trial, generator: torch.Generator) -> Iterator[Place]:
    """Places that move alone without a trace; raises if the output ignores all blocks of some axis."""
    for axis in trial.spec.hidden_axes:
        if axis.size == 1:
            continue
        carriers = [
            place for place in places(trial.spec) if place.axis == axis.name and place.key not in trial.tied
        ]
        # A single carrier moves alone by right; whether the output depends on it at all is asked below.
        dull = [
            place
            for place in carriers
            if len(carriers) == 1
            or trial.change(move_alone(trial.spec, trial.weights, place, generator)).error <= TOLERANCE
        ]
        if len(dull) == len(carriers):
            redrawn = (redraw_alone(trial.spec, trial.weights, place, generator) for place in carriers)
            if all(trial.change(weights).error == 0 for weights in redrawn):
                raise SymmetryError(
                    f"axis {axis.name} is dull everywhere: the output depends on no tensor that carries it.\n"
                    f"  carried by: {carriers_of(trial.spec, axis.name)}\n"
                    "  The check says nothing about this axis. Choose example inputs on which the module "
                    "uses these tensors, or declare the axis fixed."
                )
        if len(carriers) > 1:
            yield from dull


def _explain(failures: list[tuple[Move, _Change]]) -> str:
    """Name every part of the group that changed the output, the worst first."""
    failures = sorted(failures, key=lambda failure: -failure[1].error)
    parts: dict[str, tuple[Move, _Change]] = {}
    for move, change in failures:
        parts.setdefault(move.carriers, (move, change))
    lines = []
    for carriers, (move, change) in parts.items():
        if carriers or len(parts) == 1:
            lines.append(
                f"{move.what} changes the function: relative error {change.error:.1e} in {change.path} "
                f"(limit {TOLERANCE:.0e})."
            )
            lines += [f"  carried by: {carriers}"] if carriers else []
    if failures[0][1].error < _FLOAT32_ROUNDING:
        way_out = (
            "So small an error points at float32 inside the module (a cast, a constant), not at the spec."
        )
    else:
        way_out = (
            "The spec names a wrong axis or power for one of these, or misses a tensor that moves along."
        )
    return "\n".join([*lines, f"  {way_out}"])
