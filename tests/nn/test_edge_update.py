"""The hand-derived edge update equals plain operators, forward and backward."""

import pytest
import torch
from torch import Tensor

from wsl.nn import _edge_update, update_edges, update_hyperedges

Arguments = tuple[Tensor, Tensor, list[Tensor]]


def arguments(*sizes: int, batch: int = 3, channels: int = 4) -> Arguments:
    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    edges, weight = draw(batch, *sizes, channels), draw(channels, channels)
    return edges, weight, [draw(batch, n, channels) for n in sizes]


def plainly(edges: Tensor, weight: Tensor, terms: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    return update_hyperedges(edges, weight, terms, [(d,) for d in range(len(terms))])


def flat(result: tuple[Tensor, list[Tensor]]) -> list[Tensor]:
    return [result[0], *result[1]]


def loop(edges: Tensor, weight: Tensor, terms: list[Tensor]) -> list[Tensor]:
    """The equations of :func:`update_edges`, one edge at a time."""
    new = torch.zeros_like(edges)
    batch, n, m, _ = edges.shape
    messages = [torch.zeros_like(term) for term in terms]
    for b in range(batch):
        for i in range(n):
            for j in range(m):
                new[b, i, j] = (edges[b, i, j] @ weight + terms[0][b, i] + terms[1][b, j]).relu()
                messages[0][b, i] += new[b, i, j] / m
                messages[1][b, j] += new[b, i, j] / n
    return [new, *messages]


def test_equals_a_loop() -> None:
    with torch.no_grad():
        given = arguments(3, 5)
        for fast, slow in zip(flat(update_edges(*given)), loop(*given), strict=True):
            assert (fast - slow).abs().max() < 1e-12


@pytest.mark.parametrize("chunk", [1, 1 << 9, 1 << 30])
def test_gradients_equal_plain_operators(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_edge_update, "_CHUNK_BYTES", chunk)
    edges, weight, terms = arguments(3, 5, batch=5)
    inputs = [edges, weight, *terms]
    weights = [torch.randn_like(out) for out in flat(update_edges(edges, weight, terms))]
    grads = []
    for update in (update_edges, plainly):
        outputs = flat(update(edges, weight, terms))
        grads.append(torch.autograd.grad(outputs, inputs, weights))
    for fast, slow in zip(*grads, strict=True):
        assert (fast - slow).abs().max() < 1e-12


def test_gradcheck() -> None:
    edges, weight, terms = arguments(2, 3, batch=2, channels=3)

    def function(e: Tensor, w: Tensor, t0: Tensor, t1: Tensor) -> list[Tensor]:
        return flat(update_edges(e, w, [t0, t1]))

    assert torch.autograd.gradcheck(function, [edges, weight, *terms])
    assert torch.autograd.gradgradcheck(function, [edges, weight, *terms])


@pytest.mark.parametrize("used", [(0,), (1,), (2,), (0, 2)])
def test_gradients_of_some_outputs(used: tuple[int, ...]) -> None:
    edges, weight, terms = arguments(2, 3)
    inputs = [edges, weight, *terms]
    grads = []
    for update in (update_edges, plainly):
        outputs = flat(update(edges, weight, terms))
        total = torch.stack([outputs[i].square().sum() for i in used]).sum()
        found = torch.autograd.grad(total, inputs, allow_unused=True)
        grads.append([torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)])
    for fast, slow in zip(*grads, strict=True):
        assert (fast - slow).abs().max() < 1e-12


def test_gradients_that_are_not_contiguous() -> None:
    edges, weight, terms = arguments(3, 4)
    grads = []
    for update in (update_edges, plainly):
        new, messages = update(edges, weight, terms)
        outputs = [new.transpose(1, 2), *(m.transpose(0, 2) for m in messages)]
        # a sum has an expanded gradient, a transposed product a strided one
        total = outputs[0].sum() + (outputs[0] * torch.arange(3.0)[None, None, :, None]).sum()
        total = total + sum((m * torch.arange(4.0)[:, None, None]).sum() for m in outputs[1:])
        grads.append(torch.autograd.grad(total, [edges, weight, *terms]))
    for fast, slow in zip(*grads, strict=True):
        assert (fast - slow).abs().max() < 1e-12


def test_inputs_that_are_not_contiguous() -> None:
    edges, weight, terms = arguments(4, 3)
    strided = edges.transpose(1, 2)
    fast = flat(update_edges(strided, weight, terms[::-1]))
    slow = flat(plainly(strided, weight, terms[::-1]))
    assert all((a - b).abs().max() < 1e-12 for a, b in zip(fast, slow, strict=True))


def test_inputs_are_not_changed() -> None:
    edges, weight, terms = arguments(3, 5)
    copies = [x.detach().clone() for x in (edges, weight, *terms)]
    sum(out.sum() for out in flat(update_edges(edges, weight, terms))).backward()
    assert all(torch.equal(a, b) for a, b in zip(copies, (edges, weight, *terms), strict=True))


def test_ends_of_any_dimensions() -> None:
    edges, weight, _ = arguments(2, 3, 2, batch=2)
    dims = [(0, 2), (1,), (), (2,)]
    terms = [torch.randn(2, n, 4, dtype=torch.float64) for n in (4, 3, 1, 2)]
    new, messages = update_hyperedges(edges, weight, terms, dims)
    i, j, k = 1, 2, 0
    with torch.no_grad():
        total = terms[0][0, 2 * i + k] + terms[1][0, j] + terms[2][0, 0] + terms[3][0, k]
        assert (new[0, i, j, k] - (edges[0, i, j, k] @ weight + total).relu()).abs().max() < 1e-12
        assert (messages[0][0, 2 * i + k] - new[0, i, :, k].mean(0)).abs().max() < 1e-12
        assert (messages[1][0, j] - new[0, :, j].mean((0, 1))).abs().max() < 1e-12
        assert (messages[2][0, 0] - new[0].mean((0, 1, 2))).abs().max() < 1e-12
