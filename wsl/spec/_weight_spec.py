"""`WeightSpec`: the central value of the package."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from wsl.spec import _checks, _family, _json, _text, _topology_text, _weights
from wsl.spec._explain import explain
from wsl.spec._frozen_map import FrozenMap
from wsl.spec._topology import Edge, NodeSet, Topology, default_topology
from wsl.spec._topology_checks import canonical_topology
from wsl.spec._values import Axis, BlockRef, Note, Scaling, SpecError, TensorSpec

_FIELDS = ("axes", "tensors", "scalings", "notes", "nodes", "edges")


@dataclass(frozen=True, repr=False)
class WeightSpec:
    """Which neuron axis each dimension of each parameter tensor belongs to; holds no weights.

    Args:
        axes: the neuron axes, by name or as a sequence; hidden ones in the order of the forward pass.
        tensors: the specification of every parameter (and function-relevant buffer), in ``state_dict`` order.
        scalings: the scaling symmetries, beside the permutations of the hidden axes.
        notes: why axes that look hidden are fixed.
        nodes, edges: the topology of the network, where it is not the default one that follows from the
            tensors; left empty if it is. Read :attr:`topology`, which always tells.

    Raises:
        SpecError: an axis that is used but not declared or declared but not used, sizes that contradict one
            another, a family that a block does not carry, a scaling of a block that does not carry its axis,
            an edge that does not fit its block and node sets, a name that the text form cannot hold.
    """

    axes: Mapping[str, Axis]
    tensors: Mapping[str, TensorSpec]
    scalings: tuple[Scaling, ...] = ()
    notes: tuple[Note, ...] = ()
    nodes: tuple[NodeSet, ...] = ()
    edges: tuple[Edge, ...] = ()

    def __init__(
        self,
        axes: Mapping[str, Axis] | Iterable[Axis],
        tensors: Mapping[str, TensorSpec],
        scalings: Iterable[Scaling] = (),
        notes: Iterable[Note] = (),
        nodes: Iterable[NodeSet] = (),
        edges: Iterable[Edge] = (),
    ) -> None:
        listed = _family.order_families(axes.values() if isinstance(axes, Mapping) else axes)
        by_name = {axis.name: axis for axis in listed}
        if len(by_name) < len(listed):
            raise SpecError(f"an axis is declared twice: {', '.join(axis.name for axis in listed)}.")
        object.__setattr__(self, "axes", FrozenMap(by_name))
        object.__setattr__(self, "tensors", FrozenMap(tensors))
        object.__setattr__(self, "scalings", tuple(scalings))
        object.__setattr__(self, "notes", tuple(notes))
        _checks.check_tensors(self)
        _family.check_families(self.axes, self.blocks)
        _checks.check_notes(self)
        _checks.check_scalings(self)
        topology = canonical_topology(self, Topology(tuple(nodes), tuple(edges)))
        object.__setattr__(self, "nodes", topology.nodes)
        object.__setattr__(self, "edges", topology.edges)

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
    def topology(self) -> Topology:
        """Node sets and what connects them: as given, or the default that follows from the tensors."""
        return Topology(self.nodes, self.edges) if self.nodes or self.edges else default_topology(self)

    @cached_property
    def _by_key(self) -> dict[str, BlockRef]:
        return {ref.key: ref for ref in self.blocks}

    def block(self, key: str) -> BlockRef:
        """The block with this key.

        Raises:
            SpecError: there is none.
        """
        try:
            return self._by_key[key]
        except KeyError:
            near = difflib.get_close_matches(key, self._by_key, 3, 0)
            raise SpecError(f"the spec has no block {key!r}; similar ones: {', '.join(near)}.") from None

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

    def explain(self, tensor: str, dim: int) -> str:
        """The story of each axis of one stored dimension, as text for people.

        Tells what kind of axis it is and what fixed it, its family and scalings, and for each of its node
        sets what makes it, belongs to it and reads it.

        Raises:
            SpecError: there is no such tensor or dimension.
        """
        return explain(self, tensor, dim)

    def __str__(self) -> str:
        width = max((len(name) for name in self.tensors), default=0)
        lines = [*_text.format_axes(self.axes.values())]
        lines += [
            _text.format_tensor(name, tensor, self.axes, width) for name, tensor in self.tensors.items()
        ]
        lines += _topology_text.format_nodes(self.nodes)
        lines += _topology_text.format_edges(self.edges)
        lines += map(_text.format_scaling, self.scalings)
        lines += map(_text.format_note, self.notes)
        return "\n".join(lines)

    def __repr__(self) -> str:
        text = str(self)
        prefix = "r" if "\\" in text else ""
        return f'WeightSpec.parse({prefix}"""\n{text}\n""")'

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, name) for name in _FIELDS))

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal, axes and tensors also in order: statistics and heads count on it."""
        if not isinstance(other, WeightSpec):
            return NotImplemented
        return self is other or all(
            list(mine.items()) == list(theirs.items()) if isinstance(mine, Mapping) else mine == theirs
            for mine, theirs in ((getattr(self, name), getattr(other, name)) for name in _FIELDS)
        )

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in _FIELDS}

    @classmethod
    def parse(cls, text: str) -> "WeightSpec":
        """Read the text form that ``str`` writes; ``#`` starts a comment, a backslash continues a line.

        ::

            axes      c1: 6 hidden relu positive   h1: 2 hidden   h2: 4 hidden   # name, size, kind, …
            axes      x: 3 input   y: 5 output   f1: 7 fixed
            conv      c1 x _ _  _=3x3                 # kernel positions are no neurons: their sizes follow
            bias      c1
            in        (h1 h2[h1] + h1) (c1 8 8)       # products and a sum, of blocks in[0] and in[1]
            out       y (h1 h2[h1])                   # for each index of h1, h2 has an order of its own
            table     f1
            nodes     x: x   c1: c1 relu   h2: (h1 h2)   h1: h1 softmax   h2.2: (h1 h2) product   y: y
            edge:     x c1 conv                       # from x to c1, by this block and any that follow
            edge:     - c1 bias                       # belongs to the nodes of c1
            edge:     c1 h2 in[0]
            edge:     c1 h1 in[1]
            edge:     h1 h2.2                         # an identity
            edge:     h2 h2.2
            edge:     h2.2 y out
            scaling:  c1 positive conv+1 bias+1 in[0]-1 in[1]-1   # factor ** power scales each block
            note:     f1 cumsum in layers.2           # why it is fixed

        Activations, ``nodes`` and ``edge:`` may be left out. ``rnn@0+1 rnn@1-1`` tells apart dimensions of a
        block that carries the axis twice; ``edge: x h w ends=st`` says what each dimension of the block
        indexes (``s`` source, ``t`` target, ``b`` both), where it is not stored as in ``Linear``.

        Brackets nest: ``(h1 (f1 + h2[h1]))`` holds, for each index of ``h1``, all of ``f1`` and then all of
        ``h2``; its blocks are ``[0]`` along ``h1 f1`` and ``[1]`` along ``h1 h2``.

        Raises:
            SpecError: the text is malformed, or what it says does not fit together; the message shows the
                line, or names the axis, tensor or node set.
        """
        axes: list[Axis] = []
        tensors: dict[str, TensorSpec] = {}
        scalings: list[Scaling] = []
        notes: list[Note] = []
        nodes: list[NodeSet] = []
        edges: list[Edge] = []
        families: dict[str, tuple[str, ...]] = {}
        for number, line in _text.read_lines(text):
            with _text.in_line(number, line):
                keyword, *words = line.split()
                if keyword == "axes" and (words[0].endswith(":") if words else not tensors):
                    axes += _text.parse_axes(words)
                elif keyword == "nodes" and words and words[0].endswith(":"):
                    nodes += _topology_text.parse_nodes(words)
                elif keyword == "edge:":
                    edges += _topology_text.parse_edges(words)
                elif keyword == "scaling:":
                    scalings.append(_text.parse_scaling(words))
                elif keyword == "note:":
                    notes.append(_text.parse_note(line.removeprefix(keyword)))
                else:
                    name, tensor = _text.parse_tensor(line, {axis.name: axis.size for axis in axes}, families)
                    if name in tensors:
                        raise SpecError(f"tensor {name} is described twice.")
                    tensors[name] = tensor
        axes = [replace(axis, family=families.get(axis.name, ())) for axis in axes]
        return cls(axes, tensors, scalings, notes, nodes, edges)

    def to_json(self) -> str:
        """Write the specification as a JSON object; :meth:`from_json` reads it."""
        return _json.to_json(self)

    @classmethod
    def from_json(cls, text: str) -> "WeightSpec":
        """Read what :meth:`to_json` wrote.

        Raises:
            SpecError: the text is no JSON, or not this object in a version that this package knows.
        """
        return _json.from_json(cls, text)
