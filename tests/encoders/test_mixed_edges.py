"""The exchange of messages on lists of edges equals plain operators, also differentiated twice."""

import pytest
import torch
from torch import Tensor

from wsl.encoders import _mixed_edges
from wsl.encoders._mixed_edges import EdgeLists, Slots, exchange_edges

TARGET, SOURCE = torch.tensor([0, 1, 1, 2, 0]), torch.tensor([1, 0, 1, 1, 0])
ENTRIES = torch.arange(5)


def arguments(width: int = 2) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(5, 2), (2, 2), (5, width), (3, 2), (3, 2), (2, 2), (2, 2)]
    return [torch.randn(*s, dtype=torch.float64, generator=generator).requires_grad_() for s in shapes]


def exchanged(*given: Tensor, entry: Tensor | None = None) -> tuple[Tensor, ...]:
    edges, matrix, contents, *slots = given
    return exchange_edges(
        edges, matrix, contents, Slots(*slots[:2]), Slots(*slots[2:]), EdgeLists(TARGET, SOURCE, entry)
    )


def related(*given: Tensor) -> tuple[Tensor, ...]:
    """With inputs that are made from one another."""
    edges, matrix, *_ = given
    features = edges @ matrix
    slots = features[:3], features[2:].sin(), features[:2].cos(), features[3:]
    return exchanged(edges, matrix, features, *slots)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("chunk", [1, 2, 2048])
def test_equals_plain_operators(chunk: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mixed_edges, "_CHUNK", chunk)
    given, results = arguments(width), []
    for entry in (None, ENTRIES):  # the plain form is that for entries with several edges
        found = exchanged(*given, entry=entry)
        loss = torch.stack([(x * (x + i).cos()).sum() for i, x in enumerate(found)]).sum()
        results.append([*found, *torch.autograd.grad(loss, given)])
    for a, b in zip(*results, strict=True):
        assert (a - b).abs().max() < 1e-12


@pytest.mark.parametrize("function", [exchanged, related])
def test_gradients_of_gradients(function) -> None:
    given = arguments()[: 7 if function is exchanged else 2]
    found = [
        torch.autograd.grad(sum(x.cos().sum() for x in function(*given)), given, create_graph=create)
        for create in (False, True)
    ]
    for a, b in zip(*found, strict=True):
        assert (a - b).abs().max() < 1e-12
    assert torch.autograd.gradgradcheck(function, given)


@pytest.mark.parametrize("wanted", range(7))
def test_gradients_of_gradients_of_some_inputs(wanted: int) -> None:
    given = [x.detach().requires_grad_(i == wanted) for i, x in enumerate(arguments())]
    assert torch.autograd.gradgradcheck(exchanged, given)
