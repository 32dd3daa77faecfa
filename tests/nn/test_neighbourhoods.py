"""Statistics of neighbourhoods: against plain operators, with ties, and pooled over several parts."""

import pytest
import torch
from torch import Tensor

from wsl.nn._neighbourhoods import Statistics, pool_statistics, summarise


def plainly(messages: Tensor, dims: tuple[int, ...]) -> list[Tensor]:
    return [
        messages.mean(dims),
        messages.var(dims, unbiased=False),
        messages.amin(dims),
        messages.amax(dims),
    ]


@pytest.mark.parametrize("dims", [(1,), (2,), (1, 3), (1, 2, 3)])
def test_equals_plain_operators(dims: tuple[int, ...]) -> None:
    messages = torch.randn(2, 3, 4, 2, 5, dtype=torch.float64, requires_grad=True)
    fast, slow = summarise(messages, dims), plainly(messages, dims)
    weights = [torch.randn_like(out) for out in slow]
    for a, b in zip(fast, slow, strict=True):
        assert a.shape == b.shape and (a - b).abs().max() < 1e-12
    a, b = (torch.autograd.grad(out, messages, weights)[0] for out in (fast, slow))
    assert (a - b).abs().max() < 1e-12
    assert torch.autograd.gradcheck(lambda x: summarise(x, dims), messages, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda x: summarise(x, dims), messages, fast_mode=True)


def test_ties_share_the_gradient() -> None:
    messages = torch.tensor([[[1.0], [3.0], [3.0], [1.0], [2.0]]], requires_grad=True)
    _, _, lowest, highest = summarise(messages, (1,))
    (grad,) = torch.autograd.grad((2 * highest + lowest).sum(), messages)
    assert grad.flatten().tolist() == [0.5, 1.0, 1.0, 0.5, 0.0]


def test_of_a_single_message() -> None:
    messages = torch.randn(2, 3)
    mean, variance, lowest, highest = summarise(messages, ())
    assert not variance.any() and all(torch.equal(part, messages) for part in (mean, lowest, highest))


def test_pooled_over_parts() -> None:
    parts = [torch.randn(2, 3, n, 4, dtype=torch.float64) for n in (1, 5, 2)]
    found = pool_statistics([Statistics(part.shape[2], *summarise(part, (2,))) for part in parts])
    whole = pool_statistics([Statistics(8, *summarise(torch.cat(parts, 2), (2,)))])
    assert (found - whole).abs().max() < 1e-12
    mean, variance, lowest, highest = plainly(torch.cat(parts, 2), (2,))
    expected = torch.cat([mean, lowest, highest, (variance + 1e-5).sqrt()], -1)
    assert (whole - expected).abs().max() < 1e-12


def test_equal_messages_have_finite_gradients() -> None:
    messages = torch.zeros(1, 4, 2, requires_grad=True)
    pool_statistics([Statistics(4, *summarise(messages, (1,)))]).sum().backward()
    assert messages.grad is not None and messages.grad.isfinite().all()
