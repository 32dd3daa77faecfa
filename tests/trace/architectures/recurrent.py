"""Recurrent networks: torch's modules, their cells in a loop, and cells written by hand."""

import torch
from torch import Tensor, nn

from architectures.known import Known


class Sequence(nn.Module):
    """A recurrent module of four neurons read by a linear layer; the mean over time."""

    def __init__(self, kind: type[nn.RNNBase], outputs: int = 4, **options: object) -> None:
        super().__init__()
        self.cell = kind(3, 4, batch_first=True, **options)
        self.head = nn.Linear(outputs, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cell(x)[0].mean(1))


class LastState(Sequence):
    """Reads the final state of the last layer instead."""

    def forward(self, x: Tensor) -> Tensor:
        state = self.cell(x)[1]
        return self.head((state[0] if isinstance(state, tuple) else state)[-1])


class Elman(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.loop = nn.Linear(3, 5), nn.Linear(5, 5, bias=False)
        self.head = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(len(x), 5)
        for step in range(x.shape[1]):
            state = torch.tanh(self.inputs(x[:, step]) + self.loop(state))
        return self.head(state)


class LSTMLoop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        state = cell = x.new_zeros(len(x), 5)
        for token in x.unbind(1):
            state, cell = self.cell(token, (state, cell))
        return self.head(state)


class MinimalGRU(nn.Module):
    """One gate, with the state among what the layers read: a concatenation in every step."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.candidate = nn.Linear(3 + 5, 5), nn.Linear(3 + 5, 5)
        self.start = nn.Parameter(torch.randn(5))
        self.head = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        state = self.start.expand(len(x), 5)
        for token in x.unbind(1):
            gate = torch.sigmoid(self.gate(torch.cat([token, state], -1)))
            candidate = torch.tanh(self.candidate(torch.cat([token, gate * state], -1)))
            state = torch.lerp(state, candidate, gate)
        return self.head(state)


class SelectiveScan(nn.Module):
    """A state-space layer whose steps are written into a buffer, as in Mamba (arXiv:2312.00752)."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.out = nn.Linear(3, 5), nn.Linear(5, 2)
        self.write, self.read = nn.Linear(5, 4), nn.Linear(5, 4)
        self.decay = nn.Parameter(torch.rand(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        u = nn.functional.silu(self.inputs(x))
        write, read = self.write(u), self.read(u)
        state, out = x.new_zeros(len(x), 5, 4), x.new_zeros(len(x), x.shape[1], 5)
        for t in range(x.shape[1]):
            state = torch.exp(-self.decay) * state + u[:, t, :, None] * write[:, t, None, :]
            out[:, t] = (state * read[:, t, None, :]).sum(-1)
        return self.out(out)


def _sequence() -> Tensor:
    return torch.randn(2, 4, 3)


ROWS = {
    "rnn": Known(
        lambda: Sequence(nn.RNN),
        _sequence,
        "4",
        """
        axes  h1: 4 hidden tanh sign  x: 3 input  y: 2 output
        cell.weight_ih_l0  h1 x
        cell.weight_hh_l0  h1 h1
        cell.bias_ih_l0    h1
        cell.bias_hh_l0    h1
        head.weight        y h1
        head.bias          y
        scaling: h1 sign cell.weight_ih_l0+1 cell.weight_hh_l0@0+1 cell.weight_hh_l0@1+1 cell.bias_ih_l0+1 cell.bias_hh_l0+1 head.weight+1
        """,  # noqa: E501
    ),
    "rnn_relu": Known(
        lambda: Sequence(nn.RNN, nonlinearity="relu"),
        _sequence,
        "4",
        """
        axes  h1: 4 hidden relu positive  x: 3 input  y: 2 output
        cell.weight_ih_l0  h1 x
        cell.weight_hh_l0  h1 h1
        cell.bias_ih_l0    h1
        cell.bias_hh_l0    h1
        head.weight        y h1
        head.bias          y
        scaling: h1 positive cell.weight_ih_l0+1 cell.weight_hh_l0@0+1 cell.weight_hh_l0@1-1 cell.bias_ih_l0+1 cell.bias_hh_l0+1 head.weight-1
        """,  # noqa: E501
    ),
    "rnn_stacked": Known(lambda: Sequence(nn.RNN, num_layers=2), _sequence, "4^2"),
    "rnn_last_state": Known(lambda: LastState(nn.RNN, num_layers=2), _sequence, "4^2"),
    "lstm": Known(
        lambda: Sequence(nn.LSTM),
        _sequence,
        "4",
        """
        axes  h1: 4 hidden sign  x: 3 input  y: 2 output
        cell.weight_ih_l0  (h1 + h1 + h1 + h1) x
        cell.weight_hh_l0  (h1 + h1 + h1 + h1) h1
        cell.bias_ih_l0    (h1 + h1 + h1 + h1)
        cell.bias_hh_l0    (h1 + h1 + h1 + h1)
        head.weight        y h1
        head.bias          y
        scaling: h1 sign cell.weight_ih_l0[2]+1 cell.weight_hh_l0[0]@1+1 cell.weight_hh_l0[1]@1+1 cell.weight_hh_l0[2]@0+1 cell.weight_hh_l0[2]@1+1 cell.weight_hh_l0[3]@1+1 cell.bias_ih_l0[2]+1 cell.bias_hh_l0[2]+1 head.weight+1
        """,  # noqa: E501
    ),
    "lstm_stacked": Known(lambda: Sequence(nn.LSTM, num_layers=2), _sequence, "4^2"),
    "lstm_last_state": Known(lambda: LastState(nn.LSTM, num_layers=2), _sequence, "4^2"),
    "lstm_bidirectional": Known(lambda: Sequence(nn.LSTM, 8, bidirectional=True), _sequence, "4^2"),
    "lstm_stacked_bidirectional": Known(
        lambda: Sequence(nn.LSTM, 8, num_layers=2, bidirectional=True), _sequence, "4^4"
    ),
    "lstm_projected": Known(
        lambda: Sequence(nn.LSTM, 3, proj_size=3),
        _sequence,
        "3 4",
        """
        axes  h1: 4 hidden sign  h2: 3 hidden linear  x: 3 input  y: 2 output
        cell.weight_ih_l0  (h1 + h1 + h1 + h1) x
        cell.weight_hh_l0  (h1 + h1 + h1 + h1) h2
        cell.bias_ih_l0    (h1 + h1 + h1 + h1)
        cell.bias_hh_l0    (h1 + h1 + h1 + h1)
        cell.weight_hr_l0  h2 h1
        head.weight        y h2
        head.bias          y
        scaling: h1 sign cell.weight_ih_l0[2]+1 cell.weight_hh_l0[2]+1 cell.bias_ih_l0[2]+1 cell.bias_hh_l0[2]+1 cell.weight_hr_l0+1
        scaling: h2 linear cell.weight_hh_l0[0]-1 cell.weight_hh_l0[1]-1 cell.weight_hh_l0[2]-1 cell.weight_hh_l0[3]-1 cell.weight_hr_l0+1 head.weight-1
        """,  # noqa: E501
    ),
    "gru": Known(
        lambda: Sequence(nn.GRU),
        _sequence,
        "4",
        """
        axes  h1: 4 hidden sign  x: 3 input  y: 2 output
        cell.weight_ih_l0  (h1 + h1 + h1) x
        cell.weight_hh_l0  (h1 + h1 + h1) h1
        cell.bias_ih_l0    (h1 + h1 + h1)
        cell.bias_hh_l0    (h1 + h1 + h1)
        head.weight        y h1
        head.bias          y
        scaling: h1 sign cell.weight_ih_l0[2]+1 cell.weight_hh_l0[0]@1+1 cell.weight_hh_l0[1]@1+1 cell.weight_hh_l0[2]@0+1 cell.weight_hh_l0[2]@1+1 cell.bias_ih_l0[2]+1 cell.bias_hh_l0[2]+1 head.weight+1
        """,  # noqa: E501
    ),
    "gru_stacked": Known(lambda: Sequence(nn.GRU, num_layers=2), _sequence, "4^2"),
    "gru_bidirectional": Known(lambda: Sequence(nn.GRU, 8, bidirectional=True), _sequence, "4^2"),
    "elman": Known(
        Elman,
        _sequence,
        "5",
        """
        axes  h1: 5 hidden tanh sign  x: 3 input  y: 2 output
        inputs.weight  h1 x
        inputs.bias    h1
        loop.weight    h1 h1
        head.weight    y h1
        head.bias      y
        scaling: h1 sign inputs.weight+1 inputs.bias+1 loop.weight@0+1 loop.weight@1+1 head.weight+1
        """,
    ),
    "lstm_loop": Known(LSTMLoop, _sequence, "5"),
    "minimal_gru": Known(
        MinimalGRU,
        _sequence,
        "5",
        """
        axes  h1: 5 hidden sign  x: 3 input  y: 2 output
        start             h1
        gate.weight       h1 (x + h1)
        gate.bias         h1
        candidate.weight  h1 (x + h1)
        candidate.bias    h1
        head.weight       y h1
        head.bias         y
        scaling: h1 sign start+1 gate.weight[1]@1+1 candidate.weight[0]+1 candidate.weight[1]@0+1 candidate.weight[1]@1+1 candidate.bias+1 head.weight+1
        """,  # noqa: E501
    ),
    "selective_scan": Known(SelectiveScan, _sequence, "4 5"),
}
