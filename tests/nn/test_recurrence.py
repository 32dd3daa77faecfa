"""Recurrences step by step: torch's own results, for one network and for many at once."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from wsl.nn._recurrence import BatchableRecurrence

LAYERS = {
    "lstm": lambda: nn.LSTM(3, 4),
    "projected": lambda: nn.LSTM(3, 4, num_layers=2, proj_size=2, bidirectional=True, bias=False),
    "gru": lambda: nn.GRU(3, 4, num_layers=2, batch_first=True),
    "tanh": lambda: nn.RNN(3, 4, bidirectional=True),
    "relu": lambda: nn.RNN(3, 4, nonlinearity="relu", bias=False),
}
CELLS = {
    "lstm": lambda: nn.LSTMCell(3, 4),
    "gru": lambda: nn.GRUCell(3, 4, bias=False),
    "tanh": lambda: nn.RNNCell(3, 4),
    "relu": lambda: nn.RNNCell(3, 4, nonlinearity="relu"),
}


def flat(output: object) -> list[Tensor]:
    return [output] if isinstance(output, Tensor) else [t for part in output for t in flat(part)]


def assert_equals_torch(module: nn.Module, *inputs: object) -> None:
    drawn = [{k: torch.randn_like(v) for k, v in module.state_dict().items()} for _ in range(3)]
    together = {k: torch.stack([one[k] for one in drawn]) for k in drawn[0]}
    with BatchableRecurrence():
        found = flat(vmap(lambda weights: functional_call(module, weights, inputs))(together))
    for b, weights in enumerate(drawn):
        expected = flat(functional_call(module, weights, inputs))
        assert len(expected) == len(found)
        for a, own in zip(expected, found, strict=True):
            assert torch.allclose(a, own[b], atol=1e-12)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("started", [False, True])
def test_layers(name: str, started: bool) -> None:
    module, x = LAYERS[name]().double(), torch.randn(5, 2, 3).double()
    _, state = module(x)
    start = [torch.randn_like(part) for part in flat(state)]
    states = ((tuple(start) if len(start) > 1 else start[0]),) if started else ()
    assert_equals_torch(module, x, *states)


@pytest.mark.parametrize("name", CELLS)
def test_cells(name: str) -> None:
    module, x = CELLS[name]().double(), torch.randn(2, 3).double()
    state = tuple(torch.randn(2, 2, 4).double()) if name == "lstm" else torch.randn(2, 4).double()
    assert_equals_torch(module, x)
    assert_equals_torch(module, x, state)


def test_torch_alone_cannot() -> None:
    """Else there is no need for this."""
    module, x = nn.LSTM(3, 4), torch.randn(5, 2, 3)
    weights = {k: v.unsqueeze(0) for k, v in module.state_dict().items()}
    with pytest.raises(RuntimeError, match="[Bb]atching rule"):
        vmap(lambda own: functional_call(module, own, (x,)))(weights)
