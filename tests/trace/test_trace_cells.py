"""Cells of dims: where each product of leaves lies."""

import math

from hypothesis import given
from hypothesis import strategies as st

from wsl.spec import TensorSpec
from wsl.trace._axes import AxisVariable, Concatenation, Dim, size_of
from wsl.trace._cells import Place, dim_cells
from wsl.trace._places import block_places
from wsl.trace._topology_terms import Span

FACTORS = st.recursive(
    st.integers(1, 3).map(AxisVariable),
    lambda inner: st.lists(st.lists(inner, min_size=1, max_size=3).map(tuple), min_size=2, max_size=3).map(
        Concatenation
    ),
    max_leaves=6,
)
DIMS = st.lists(FACTORS, min_size=1, max_size=3).map(tuple)


def indices(place: Place) -> list[int]:
    """The slow twin: all indices in order."""
    found = [place.start]
    for count, stride in place.runs:
        found = [start + i * stride for start in found for i in range(count)]
    return found


@given(DIMS)
def test_cells_take_a_dim_apart(dim: Dim):
    """Every index lies in one cell, which has as many as its leaves say, in ascending order."""
    cells = dim_cells(dim)
    for cell in cells:
        found = indices(cell.place)
        assert found == sorted(found)
        assert len(found) == math.prod(leaf.size for leaf in cell.leaves)
        assert cell.place.stop == found[-1] + 1
    assert sorted(i for cell in cells for i in indices(cell.place)) == list(range(size_of(dim)))


@given(DIMS, DIMS, st.integers(-4, 4))
def test_places_meet_where_they_share_an_index(one: Dim, other: Dim, shift: int):
    for a in dim_cells(one):
        for b in dim_cells(other):
            moved = b.place.shifted(shift)
            shared = set(indices(a.place)) & set(indices(moved))
            assert a.place.meets(moved) == bool(shared)
            assert (a.place == moved) == (indices(a.place) == indices(moved))
            if shared and a.place == moved:
                assert Span.of(a.place).meets(Span.of(moved))


def test_blocks_lie_where_cells_do():
    h, a, b = AxisVariable(2), AxisVariable(3), AxisVariable(1)
    dim = (h, Concatenation([(a,), (b,), (a, h)]))
    stored = ((("h", (("a",), ("b",), ("a", "h"))),), (("a",),))
    tensor = TensorSpec.from_dims(stored, {"h": 2, "a": 3, "b": 1})
    for cell, block in zip(dim_cells(dim), tensor.blocks, strict=True):
        assert block_places(tensor, block) == (cell.place, Place(0, ((3, 1),)))
