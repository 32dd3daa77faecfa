"""Weights that no output depends on are fixed, so that every axis called hidden can be checked."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wsl import trace, verify


class DiscardedHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.aside = nn.Linear(3, 5), nn.Linear(5, 2), nn.Linear(5, 6)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu(self.body(x))
        self.aside(hidden)
        return self.head(hidden)


class MeanOnly(nn.Module):
    """A variational autoencoder in evaluation mode: the half with the variances is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.code, self.decoder = nn.Linear(3, 5), nn.Linear(5, 4), nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        mean, _ = self.code(F.relu(self.encoder(x))).chunk(2, 1)
        return self.decoder(mean)


class ShortSequence(nn.Module):
    """Learned positions for longer sequences than the example has."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(3, 5), nn.Linear(5, 2)
        self.positions = nn.Parameter(torch.randn(1, 9, 5))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.embed(x) + self.positions[:, : x.shape[1]])).mean(1)


@pytest.mark.parametrize(
    ("module", "inputs", "hidden", "unused"),
    [
        (DiscardedHead(), torch.randn(4, 3), {5}, 6),
        (MeanOnly(), torch.randn(4, 3), {5, 2}, 2),
        (ShortSequence(), torch.randn(4, 6, 3), {5}, 3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_axes_of_weights_without_effect_are_fixed(module, inputs, hidden, unused):
    spec = trace(module, inputs)
    assert {axis.size for axis in spec.hidden_axes} == hidden
    (note,) = spec.notes
    assert note.reason == "no output depends on it" and spec.axes[note.axis].size == unused
    verify(module, spec, inputs)


class WrittenThroughViews(nn.Module):
    """The first layer's output reaches the second one's only through a view that is written to."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.zeros(6, len(x), dtype=x.dtype)
        hidden.t().copy_(torch.tanh(self.first(x)))
        return self.last(hidden.t())


def test_writing_through_a_view_reaches_the_output():
    module, inputs = WrittenThroughViews(), torch.randn(4, 3)
    spec = trace(module, inputs)
    assert [axis.size for axis in spec.hidden_axes] == [6]
    verify(module, spec, inputs)


class BatchStatistics(nn.Module):
    """Always normalises by the batch, whose running statistics are then only written to."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        n = self.norm
        h = F.batch_norm(self.first(x), n.running_mean, n.running_var, n.weight, n.bias, training=True)
        return self.last(F.relu(h))


def test_running_statistics_that_are_only_written_follow_their_channels():
    module, inputs = BatchStatistics(), torch.randn(5, 3)
    spec = trace(module, inputs)
    (axis,) = spec.hidden_axes
    assert spec.tensors["norm.running_mean"].axes == (axis.name,)
    verify(module, spec, inputs)


@pytest.mark.parametrize(
    ("last", "inputs"),
    [
        (nn.Flatten(0), torch.randn(4, 3)),  # as discriminators do: (batch, 1) to (batch,)
        (nn.Identity(), torch.randn(3)),  # without a batch
    ],
    ids=["view", "unbatched"],
)
def test_a_single_output_neuron_is_an_output(last, inputs):
    module = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1), nn.Sigmoid(), last)
    spec = trace(module, inputs)
    assert [(axis.name, axis.size) for axis in spec.hidden_axes] == [("h1", 5)]
    assert spec.axes[spec.tensors["2.bias"].axes[0]].kind == "output"


@pytest.mark.parametrize("cell", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_one_step_from_a_state_of_zeros_says_nothing_about_recurrent_weights(cell):
    class OneStep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = cell(3, 5), nn.Linear(5, 2)

        def forward(self, x: Tensor) -> Tensor:
            state = self.cell(x)
            return self.head(state[0] if isinstance(state, tuple) else state)

    inputs = torch.randn(4, 3)
    spec = trace(OneStep(), inputs)
    assert [axis.size for axis in spec.hidden_axes] == [5]
    (note,) = spec.notes
    assert note.reason == "it meets only zeros on these examples: give a longer sequence, or a state"
    verify(OneStep(), spec, inputs)
