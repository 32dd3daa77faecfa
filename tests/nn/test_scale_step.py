"""The hand-derived step of scale equivariant message passing equals plain operators, in all derivatives."""

import pytest
import torch
from torch import Tensor

from wsl.graph import graph_layout
from wsl.nn import _edge_update, flipping_connections
from wsl.nn._scale_step import ScaleRoutes, _step, scale_step
from wsl.spec import WeightSpec

SPEC = WeightSpec.parse(
    """
    axes   h1: 3 hidden tanh sign   h2: 2 hidden relu   x: 2 input   y: 2 output
    fc1.weight   h1 x
    fc2.weight   h2 h1
    fc3.weight   y h2
    scaling: h1 sign fc1.weight+1 fc2.weight+1
    """
)
C = 4


def cases(ways: int) -> list[tuple[ScaleRoutes, list[Tensor], list[Tensor]]]:
    """The routes of all blocks, and random arguments."""
    torch.manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    shared = [draw((1 + ways) * C, C), draw((1 + ways) * C, C), draw((1 + ways) * C)]
    found = []
    for connection, kinds, flips in flipping_connections(graph_layout(SPEC)):
        received = [kind if ways > 1 or side == 0 else None for side, kind in enumerate(kinds)]
        widths = [C if ways == 1 and terminal.end.target else 2 * C for terminal in connection.terminals]
        ends = [
            draw(3, *terminal.shape, width)
            for terminal, width in zip(connection.terminals, widths, strict=True)
        ]
        batched = [draw(3, *connection.sizes, C), *ends]
        found.append((ScaleRoutes(connection, flips, tuple(received)), batched, shared))
    return found


@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("chunk", [1, 1 << 8, 1 << 30])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_equals_plain_operators(
    ways: int, chunk: int, checkpoint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_edge_update, "_CHUNK_BYTES", chunk)
    flips = set()
    for routes, batched, shared in cases(ways):
        flips.add(routes.flips)
        inputs = [*batched, *shared]
        slow, fast = _step(routes, *inputs), scale_step(routes, batched, shared, checkpoint)
        weights = [torch.randn_like(out) for out in slow]
        assert all((a - b).abs().max() < 1e-12 for a, b in zip(fast, slow, strict=True))
        for count in range(1, len(slow) + 1):  # not everything has gradients
            grads = [
                torch.autograd.grad(
                    outputs[:count], inputs, weights[:count], retain_graph=True, materialize_grads=True
                )
                for outputs in (fast, slow)
            ]
            assert all((a - b).abs().max() < 1e-11 for a, b in zip(*grads, strict=True))
    assert flips == {True, False}


@pytest.mark.parametrize("ways", [1, 2])
def test_second_derivatives(ways: int) -> None:
    routes, batched, shared = cases(ways)[1]

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        return scale_step(routes, tensors[: len(batched)], tensors[len(batched) :])

    assert torch.autograd.gradcheck(function, [*batched, *shared], fast_mode=True)
    assert torch.autograd.gradgradcheck(function, [*batched, *shared], fast_mode=True)
