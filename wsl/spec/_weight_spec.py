"""`WeightSpec`: the central value of the package."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Generic, TypeVar

from torch import Tensor

from wsl.spec import _text, _weights
from wsl.spec._values import SCALING_KINDS, Axis, BlockRef, Note, Scaling, SpecError, TensorSpec

_Value = TypeVar("_Value")
_FORMAT = "wsl.WeightSpec"
_VERSION = 1


class FrozenMap(Mapping[str, _Value], Generic[_Value]):
    """An immutable, hashable mapping that keeps its order and compares like any mapping."""

    def __init__(self, items: Mapping[str, _Value]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> _Value:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


@dataclass(frozen=True, repr=False)
class WeightSpec:
    """Which neuron axis each dimension of each parameter tensor belongs to; holds no weights.

    Args:
        axes: the neuron axes, by name or as a sequence; hidden ones in the order of the forward pass.
        tensors: the specification of every parameter (and function-relevant buffer), in ``state_dict`` order.
        scalings: the scaling symmetries, beside the permutations of the hidden axes.
        notes: why axes that look hidden are fixed.

    Raises:
        SpecError: an axis that is used but not declared or declared but not used, sizes that contradict one
            another, a scaling of a block that does not carry its axis, a name that the text form cannot hold.
    """

    axes: Mapping[str, Axis]
    tensors: Mapping[str, TensorSpec]
    scalings: tuple[Scaling, ...] = ()
    notes: tuple[Note, ...] = ()

    def __init__(
        self,
        axes: Mapping[str, Axis] | Iterable[Axis],
        tensors: Mapping[str, TensorSpec],
        scalings: Iterable[Scaling] = (),
        notes: Iterable[Note] = (),
    ) -> None:
        listed = tuple(axes.values() if isinstance(axes, Mapping) else axes)
        by_name = {axis.name: axis for axis in listed}
        if len(by_name) < len(listed):
            raise SpecError(f"an axis is declared twice: {', '.join(axis.name for axis in listed)}.")
        object.__setattr__(self, "axes", FrozenMap(by_name))
        object.__setattr__(self, "tensors", FrozenMap(tensors))
        object.__setattr__(self, "scalings", tuple(scalings))
        object.__setattr__(self, "notes", tuple(notes))
        self._check()

    @cached_property
    def hidden_axes(self) -> tuple[Axis, ...]:
        """The axes that may be permuted."""
        return tuple(axis for axis in self.axes.values() if axis.kind == "hidden")

    @cached_property
    def blocks(self) -> tuple[BlockRef, ...]:
        """Every block of every tensor, in order, with its key."""
        return tuple(
            BlockRef(name if len(tensor.blocks) == 1 else f"{name}[{i}]", name, block)
            for name, tensor in self.tensors.items()
            for i, block in enumerate(tensor.blocks)
        )

    @cached_property
    def parameter_count(self) -> int:
        """Number of stored entries of one network."""
        return _weights.parameter_count(self)

    def check_weights(self, weights: Mapping[str, Tensor], *, batched: bool = True) -> int:
        """Check names and shapes of ``weights``; returns the number of networks in them.

        Args:
            weights: a tensor ``(B, *shape)`` for every entry of ``tensors``; ``shape`` if not ``batched``.

        Raises:
            SpecError: a tensor is missing, extra, or of another shape than the spec says.
        """
        return _weights.check_weights(self, weights, batched)

    def split(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Cut weights ``(B, *shape)`` into blocks ``(B, *view)``, by block key. Differentiable."""
        return _weights.split(self, weights)

    def join(self, blocks: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Put blocks ``(B, *view)`` together to weights ``(B, *shape)``: the inverse of :meth:`split`."""
        return _weights.join(self, blocks)

    def __str__(self) -> str:
        width = max((len(name) for name in self.tensors), default=0)
        lines = [*_text.format_axes(self.axes.values())]
        lines += [_text.format_tensor(name, tensor, width) for name, tensor in self.tensors.items()]
        lines += map(_text.format_scaling, self.scalings)
        lines += map(_text.format_note, self.notes)
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f'WeightSpec.parse("""\n{self}\n""")'

    @cached_property
    def _hash(self) -> int:
        return hash((self.axes, self.tensors, self.scalings, self.notes))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in ("axes", "tensors", "scalings", "notes")}

    @classmethod
    def parse(cls, text: str) -> "WeightSpec":
        """Read the text form that ``str`` writes; ``#`` starts a comment.

        Raises:
            SpecError: the text is malformed; the message shows the line.
        """
        axes: list[Axis] = []
        tensors: dict[str, TensorSpec] = {}
        scalings: list[Scaling] = []
        notes: list[Note] = []
        for line in filter(None, (line.split(" #")[0].strip() for line in text.splitlines())):
            if line.startswith("#"):
                continue
            keyword, *words = line.split()
            if keyword == "axes" and not tensors and (not words or words[0].endswith(":")):
                axes += _text.parse_axes(words)
            elif keyword == "scaling:":
                scalings.append(_text.parse_scaling(words))
            elif keyword == "note:":
                notes.append(_text.parse_note(line.removeprefix(keyword)))
            else:
                name, tensor = _text.parse_tensor(line, {axis.name: axis.size for axis in axes})
                if name in tensors:
                    raise SpecError(f"tensor {name} is described twice; the second time in {line!r}.")
                tensors[name] = tensor
        return cls(axes, tensors, scalings, notes)

    def to_json(self) -> str:
        """Write the specification as a JSON object; :meth:`from_json` reads it."""
        tensors = {
            name: {"shape": tensor.shape, "dims": tensor.dims} for name, tensor in self.tensors.items()
        }
        return json.dumps(
            {
                "format": _FORMAT,
                "version": _VERSION,
                "axes": [asdict(axis) for axis in self.axes.values()],
                "tensors": tensors,
                "scalings": [asdict(scaling) for scaling in self.scalings],
                "notes": [asdict(note) for note in self.notes],
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "WeightSpec":
        """Read what :meth:`to_json` wrote.

        Raises:
            SpecError: the text is no JSON, or not this object in a version that this package knows.
        """
        try:
            record = json.loads(text)
            if (record["format"], record["version"]) != (_FORMAT, _VERSION):
                raise SpecError(
                    f"expected {_FORMAT} version {_VERSION}, got {record['format']} {record['version']}."
                )
            axes = [Axis(**axis) for axis in record["axes"]]
            sizes = {axis.name: axis.size for axis in axes}
            tensors = {}
            for name, entry in record["tensors"].items():
                dims = tuple(tuple(tuple(term) for term in dim) for dim in entry["dims"])
                tensors[name] = TensorSpec.from_dims(dims, sizes)
                if list(tensors[name].shape) != entry["shape"]:
                    raise SpecError(
                        f"{name} is stored as {entry['shape']}, but its axes make {tensors[name].shape}."
                    )
            scalings = [
                Scaling(s["axis"], s["kind"], tuple((key, power) for key, power in s["exponents"]))
                for s in record["scalings"]
            ]
            return cls(axes, tensors, scalings, [Note(**note) for note in record["notes"]])
        except SpecError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as err:
            raise SpecError(
                f"this is no specification in JSON ({type(err).__name__}: {err}); write it with to_json()."
            ) from err

    def _check(self) -> None:
        sizes = {axis.name: axis.size for axis in self.axes.values()}
        for name, tensor in self.tensors.items():
            if not name or name.split() != [name] or name.endswith(":") or name.startswith("#"):
                raise SpecError(
                    f"tensor name {name!r} cannot be written: it is empty, has spaces, or ends with ':'."
                )
            if TensorSpec.from_dims(tensor.dims, sizes) != tensor:
                raise SpecError(
                    f"{_text.format_tensor(name, tensor)} contradicts the declared axis sizes {sizes}."
                )
        used = {axis for tensor in self.tensors.values() for axis in tensor.axes}
        if unused := [name for name in self.axes if name not in used]:
            raise SpecError(f"axes {', '.join(unused)} occur in no tensor; leave them out.")
        if unknown := [note.axis for note in self.notes if note.axis not in self.axes]:
            raise SpecError(f"notes name axes that are not declared: {', '.join(unknown)}.")
        for note in self.notes:
            if not note.reason or " #" in f" {note.reason}":
                raise SpecError(
                    f"the note of {note.axis} cannot be written: {note.reason!r} is empty or holds a comment."
                )
        self._check_scalings()

    def _check_scalings(self) -> None:
        carried = {ref.key: ref.block.axes for ref in self.blocks}
        for scaling in self.scalings:
            axis = self.axes.get(scaling.axis)
            if axis is None or axis.kind != "hidden" or axis.scaling is None:
                raise SpecError(
                    f"scaling of {scaling.axis}, which is not declared as a hidden axis with a scaling."
                )
            if scaling.kind not in SCALING_KINDS or not scaling.exponents:
                raise SpecError(
                    f"scaling of {scaling.axis} has kind {scaling.kind!r}, {len(scaling.exponents)} blocks;"
                    f" expected {' or '.join(SCALING_KINDS)}, and at least one block."
                )
            for key, power in scaling.exponents:
                if not isinstance(power, int):
                    raise SpecError(
                        f"scaling of {scaling.axis} has power {power!r} for {key}; not an integer."
                    )
                if scaling.axis not in carried.get(key, ()):
                    raise SpecError(
                        f"scaling of {scaling.axis} names block {key}, which does not carry that axis."
                    )
