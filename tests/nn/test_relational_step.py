"""The hand-derived attention along a matrix of edges equals plain operators, in all derivatives."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from wsl.graph import graph_layout
from wsl.nn import Connection, _relational_step, connections
from wsl.nn._relational_step import _attend_along, attend_along
from wsl.spec import WeightSpec

SPEC = WeightSpec.parse(
    """
    axes   h1: 3 hidden   h2: 4 hidden   x: 1 input   y: 2 output
    fc1.weight   h1 x
    fc2.weight   h2 h1
    fc3.weight   y h2
    """
)
CHANNELS, HEADS, WIDTH = 5, 2, 3


@pytest.fixture(autouse=True, params=[1, 3])
def _at_sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_relational_step, "_FEW", request.param)


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def arguments(connection: Connection, count: int = 2) -> list[Tensor]:
    """Edges, terms of both ends, parameters; all random."""
    hidden = HEADS * WIDTH
    return [
        draw(count, *connection.sizes, CHANNELS),
        *(draw(count, *terminal.shape, 3 * hidden) for terminal in connection.terminals),
        *(draw(hidden, CHANNELS) for _ in range(2)),
        draw(2, 2, hidden),
        *(draw(hidden, CHANNELS) for _ in range(2)),
        *(draw(HEADS, CHANNELS, WIDTH) for _ in range(2)),
    ]


def attention(function: Callable[..., list[Tensor]], connection: Connection) -> Callable[..., list[Tensor]]:
    return lambda edges, first, second, *tensors: function(connection, edges, [first, second], tensors, HEADS)


@pytest.mark.parametrize("block", range(3))
def test_equals_plain_operators(block: int) -> None:
    torch.manual_seed(0)
    connection = connections(graph_layout(SPEC))[block]
    inputs = arguments(connection)
    fast, slow = (attention(function, connection)(*inputs) for function in (attend_along, _attend_along))
    taken = "_AttentionBackward" in type(fast[0].grad_fn).__name__
    assert taken == (min(connection.sizes) >= _relational_step._FEW)
    assert all((a - b).abs().max() < 1e-12 for a, b in zip(fast, slow, strict=True))
    weights = [torch.randn_like(out) for out in slow]
    for used in (slice(2), slice(1), slice(1, 2)):  # not everything has gradients
        grads = [
            torch.autograd.grad(
                outputs[used], inputs, weights[used], retain_graph=True, materialize_grads=True
            )
            for outputs in (fast, slow)
        ]
        assert all((a - b).abs().max() < 1e-11 for a, b in zip(*grads, strict=True))


def test_second_derivatives() -> None:
    torch.manual_seed(0)
    connection = connections(graph_layout(SPEC))[1]
    inputs = arguments(connection)
    function = attention(attend_along, connection)
    assert torch.autograd.gradcheck(lambda *x: tuple(function(*x)), inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda *x: tuple(function(*x)), inputs, fast_mode=True)


def test_no_networks() -> None:
    connection = connections(graph_layout(SPEC))[1]
    inputs = arguments(connection, 0)
    messages = attention(attend_along, connection)(*inputs)
    assert [m.shape for m in messages] == [(0, 4, 8), (0, 3, 8)]
    grads = torch.autograd.grad(sum(m.sum() for m in messages), inputs)
    assert all(grad.shape == x.shape and not grad.any() for grad, x in zip(grads, inputs, strict=True))
