"""Scale equivariant message passing against loops over nodes and edges, and its head."""

import pytest
import torch
from torch import Tensor

from wsl.graph import graph_layout
from wsl.nn import ScaleMessagePassing, fold_edges
from wsl.spec import WeightSpec

SPEC = WeightSpec.parse(
    """
    axes   h1: 3 hidden tanh sign   x: 2 input   y: 2 output
    fc1.weight   h1 x
    fc2.weight   y h1
    scaling: h1 sign fc1.weight+1 fc2.weight+1
    """
)
C = 4
FLIPS = {"x": False, "h1": True, "y": False}


@pytest.mark.parametrize("bidirectional", [False, True])
def test_equals_loops(bidirectional: bool) -> None:
    torch.manual_seed(0)
    layout = graph_layout(SPEC)
    layer = ScaleMessagePassing(C, bidirectional).double()
    edges = {key: torch.randn(1, *SPEC.tensors[key].shape, C).double() for key in SPEC.tensors}
    nodes, invariants = torch.randn(2, 1, 7, C, dtype=torch.float64)
    found = layer(layout, fold_edges(layout, edges, torch.ones(C).double(), 1), nodes, invariants)
    expected = _loops(layer, layout.slices, edges, nodes[0], invariants[0])
    for key, states in edges.items():
        assert states.shape == found[0][key].shape
        assert torch.allclose(found[0][key][0], expected[0][key])
    assert torch.allclose(found[1][0], expected[1])
    assert torch.allclose(found[2][0], expected[2])


def _loops(
    layer: ScaleMessagePassing,
    slices: dict[str, slice],
    edges: dict[str, Tensor],
    nodes: Tensor,
    invariants: Tensor,
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """The equations of the docstring."""
    flips = torch.tensor(
        [FLIPS[name] for name, rows in slices.items() for _ in range(rows.stop - rows.start)]
    )

    def absolute(i: int, z: Tensor) -> Tensor:
        return z.abs() if flips[i] else z

    inner, ways, count = layer.invariants, layer.ways, len(nodes)
    known = [
        invariants[i] + inner.out((absolute(i, inner.nodes(nodes[i])) + inner.bias).relu())
        for i in range(count)
    ]
    term_t, term_s = zip(*(layer.ends(a).chunk(2) for a in known), strict=True)
    values = [layer.values(v).chunk(ways) for v in nodes]
    odd: list[list[list[Tensor]]] = [[[] for _ in range(ways)] for _ in range(count)]
    even: list[list[list[Tensor]]] = [[[] for _ in range(ways)] for _ in range(count)]
    new = {}
    for key, source, target in (("fc1.weight", "x", "h1"), ("fc2.weight", "h1", "y")):
        new[key] = torch.empty_like(edges[key][0])
        for i, row in enumerate(edges[key][0]):
            for j, edge in enumerate(row):
                at, by = slices[target].start + i, slices[source].start + j
                z, *parts = layer.edges(edge).chunk(1 + ways)
                k = (term_t[at] + term_s[by] + z.abs()).relu()
                gates = layer.gates(k).chunk(1 + ways)
                new[key][i, j] = edge + parts[0] * gates[0]
                odd[at][0].append(parts[0] * gates[1] * values[by][0])
                even[at][0].append(k)
                if ways == 2:
                    odd[by][1].append(parts[1] * gates[2] * values[at][1])
                    even[by][1].append(k)
    states, constants = [], []
    zero = torch.zeros(C, dtype=torch.float64)
    for i in range(count):
        m = [torch.stack(ms).sum(0) / len(ms) ** 0.5 if ms else zero for ms in odd[i]]
        q = [torch.stack(ks).mean(0) if ks else zero for ks in even[i]]
        z = layer.odd_in(torch.cat([nodes[i], *m]))
        s = (layer.even_in(torch.cat([known[i], *q])) + absolute(i, z)).relu()
        gate, update = layer.even_out(s).chunk(2)
        states.append(layer.node_norm(nodes[i] + layer.odd_out(z) * gate))
        constants.append(layer.invariant_norm(invariants[i] + update))
    return new, torch.stack(states), torch.stack(constants)
