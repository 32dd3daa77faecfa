"""Weights inside a trace: which blocks a value is made of, and where their dimensions are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from wsl.spec import Block, TensorSpec, stored_dims
from wsl.trace._facts import Value
from wsl.trace._places import block_places
from wsl.trace._topology_cells import AxisTuple, CellKey, Layouts, NeuronCell

Place = tuple[int, int]


class Strand(NamedTuple):
    """A block within a value that is made of weights alone.

    Attributes:
        block: its key.
        axes: of its neuron dimensions.
        places: for each of these the dim of the value, and which leaf of the cell's term along it; ``None``
            if it was summed over.
        dormant: whether it met nothing but zeros.
    """

    block: str
    axes: AxisTuple
    places: tuple[Place | None, ...]
    dormant: bool = False

    @property
    def lost(self) -> int:
        """How many of its neuron dimensions the value lacks."""
        return self.places.count(None)


class Weave(NamedTuple):
    """What a cell of weights is made of."""

    strands: tuple[Strand, ...]


def weave(strands: Iterable[Strand]) -> Weave:
    """Strands without repetition; where a block enters whole, its moments and norms are left out."""
    unique = list(dict.fromkeys(strands))
    whole = {strand.block for strand in unique if not strand.lost}
    return Weave(tuple(strand for strand in unique if not strand.lost or strand.block not in whole))


def state_weaves(
    state: Mapping[str, Value], tensors: Mapping[str, TensorSpec], layouts: Layouts
) -> dict[tuple[int, CellKey], Weave]:
    """The blocks in every neuron cell of the state tensors; tied tensors have one value and several keys."""
    found: dict[tuple[int, CellKey], list[Strand]] = {}
    for name, tensor in tensors.items():
        value = state[name]
        layout = layouts[value]
        for i, block in enumerate(tensor.blocks):
            key = name if len(tensor.blocks) == 1 else f"{name}[{i}]"
            stored = stored_dims(tensor, block)
            for where in layout.keys_of(block_places(tensor, block)):
                strand = _strand(key, block, stored, layout.cells[where])
                found.setdefault((id(value), where), []).append(strand)
    return {where: weave(strands) for where, strands in found.items()}


def _strand(key: str, block: Block, stored: Sequence[int], cell: NeuronCell) -> Strand:
    """Find the leaf at which each neuron dimension of ``block`` begins."""
    taken: set[Place] = set()
    places: list[Place | None] = []
    for dim in block.neuron_dims:
        names = cell.names[stored[dim]]
        free = [
            (stored[dim], j)
            for j, name in enumerate(names)
            if name == block.axes[dim] and (stored[dim], j) not in taken
        ]
        places.append(free[0] if free else None)
        taken.update(free[:1])
    return Strand(key, tuple(block.axes[dim] for dim in block.neuron_dims), tuple(places))


def moved(strand: Strand, source: NeuronCell, target: NeuronCell, dims: Mapping[int, int]) -> Strand:
    """The strand after an operator that takes dim ``i`` of ``source`` to dim ``dims[i]`` of ``target``."""
    places: list[Place | None] = []
    for place in strand.places:
        new = None if place is None or place[0] not in dims else (dims[place[0]], place[1])
        if place is not None and new is not None:
            before, after = source.terms[place[0]].leaves, target.terms[new[0]].leaves
            new = new if new[1] < len(after) and before[place[1]] is after[new[1]] else None
        places.append(new)
    return strand._replace(places=tuple(places))


def regrouped(strand: Strand, source: NeuronCell, target: NeuronCell) -> Strand:
    """The strand after a view, which keeps the order of leaves."""
    where = {}
    flat = [
        [((d, j), leaf) for d, term in enumerate(cell.terms) for j, leaf in enumerate(term.leaves)]
        for cell in (source, target)
    ]
    free = list(flat[1])
    for place, leaf in flat[0]:
        match = next((entry for entry in free if entry[1] is leaf), None)
        if match is not None:
            free.remove(match)
            where[place] = match[0]
    return strand._replace(
        places=tuple(None if place is None else where.get(place) for place in strand.places)
    )
