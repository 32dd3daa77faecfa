"""Recurrent networks in operators that ``vmap`` knows."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode

State = tuple[Tensor, ...]
Cell = Callable[[Tensor, State, Tensor, Tensor | None], State]


class BatchableRecurrence(TorchFunctionMode):
    """Runs LSTMs, GRUs, plain recurrent networks and their cells step by step, while it is entered.

    Torch's own operators for them have no rule for ``vmap``. In evaluation mode: without dropout. Packed
    sequences are left to torch.
    """

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _LAYERS and isinstance(args[2], tuple | list):
            return _run_layers(_LAYERS[func], func is torch.lstm, *args, **(kwargs or {}))
        if func in _CELLS:
            return _run_cell(_CELLS[func], func is torch.lstm_cell, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _lstm(read: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    i, f, g, o = (read + linear(state[0], weight, bias)).chunk(4, -1)
    cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def _gru(read: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    (r, z, n), (r0, z0, n0) = read.chunk(3, -1), linear(state[0], weight, bias).chunk(3, -1)
    new = (n + (r + r0).sigmoid() * n0).tanh()
    return (new + (z + z0).sigmoid() * (state[0] - new),)


def _tanh(read: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    return ((read + linear(state[0], weight, bias)).tanh(),)


def _relu(read: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    return ((read + linear(state[0], weight, bias)).relu(),)


_LAYERS: dict[Any, Cell] = {torch.lstm: _lstm, torch.gru: _gru, torch.rnn_tanh: _tanh, torch.rnn_relu: _relu}
_CELLS: dict[Any, Cell] = {
    torch.lstm_cell: _lstm,
    torch.gru_cell: _gru,
    torch.rnn_tanh_cell: _tanh,
    torch.rnn_relu_cell: _relu,
}


def _run_cell(
    cell: Cell,
    memory: bool,
    x: Tensor,
    state: Any,
    weight: Tensor,
    inner: Tensor,
    bias: Tensor | None = None,
    inner_bias: Tensor | None = None,
) -> Any:
    new = cell(linear(x, weight, bias), tuple(state) if memory else (state,), inner, inner_bias)
    return new if memory else new[0]


def _run_layers(
    cell: Cell,
    memory: bool,
    x: Tensor,
    start: Any,
    weights: Sequence[Tensor],
    biases: bool,
    layers: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """The arguments and results of ``torch.lstm`` and its like."""
    states = tuple(start) if memory else (start,)
    ways = 2 if bidirectional else 1
    per_way = len(weights) // (layers * ways)
    x = x.transpose(0, 1) if batch_first else x
    ends: list[State] = []
    for layer in range(layers):
        outputs = []
        for way in range(ways):
            number = layer * ways + way
            own = list(weights[number * per_way : (number + 1) * per_way])
            weight, inner = own[:2]
            bias, inner_bias = own[2:4] if biases else (None, None)
            project = own[-1] if per_way % 2 else None
            state = tuple(part[number] for part in states)
            found = []
            for read in linear(x, weight, bias).flip(0) if way else linear(x, weight, bias):
                state = cell(read, state, inner, inner_bias)
                state = state if project is None else (linear(state[0], project), *state[1:])
                found.append(state[0])
            outputs.append(torch.stack(found[::-1] if way else found))
            ends.append(state)
        x = torch.cat(outputs, dim=-1)
    last = (torch.stack(parts) for parts in zip(*ends, strict=True))
    return (x.transpose(0, 1) if batch_first else x, *last)
