"""Fused attention: its values, and gradients of its gradients by every way of asking for them."""

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap

from wsl.nn import MultiheadAttentionBlock
from wsl.nn._attention import attention


def drawn(n: int = 3, m: int = 4, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 2, n, 3), (2, 2, m, 3), (2, 2, m, 3))
    return [torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]


def slow(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    shares = torch.einsum("bhnc,bhmc->bhnm", query, key).div(query.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("bhnm,bhmc->bhnc", shares, value)


@pytest.mark.parametrize("sizes", [(3, 4), (1, 5), (4, 1), (0, 3)])
def test_values_and_gradients_of_every_order(sizes: tuple[int, int]) -> None:
    found, inputs = [], drawn(*sizes)
    for function in (attention, slow):
        value = function(*inputs)
        first = torch.autograd.grad(value.square().sum(), inputs, create_graph=True)
        plain = torch.autograd.grad(function(*inputs).square().sum(), inputs)
        second = torch.autograd.grad(sum(g.pow(3).sum() for g in first), inputs, create_graph=True)
        third = torch.autograd.grad(sum(g.sin().sum() for g in second), inputs)
        found.append([value, *first, *plain, *second, *third])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_function_transforms() -> None:
    inputs = [x.detach() for x in drawn()]

    def loss(*given: Tensor) -> Tensor:
        return attention(*given).square().sum()

    def steep(*given: Tensor) -> Tensor:
        return grad(loss)(*given).square().sum()

    each = vmap(grad(steep))(*inputs)
    for i, one in enumerate(each):
        torch.testing.assert_close(one, grad(steep)(*(x[i] for x in inputs)), rtol=1e-10, atol=1e-10)
    leaves = drawn()
    vmap(attention)(*leaves).square().sum().backward()
    wanted = torch.autograd.grad(loss(*leaves), leaves)
    for leaf, other in zip(leaves, wanted, strict=True):
        torch.testing.assert_close(leaf.grad, other, rtol=1e-10, atol=1e-10)


def test_no_attention_weight_is_kept() -> None:
    """What a training step keeps grows with the number of elements, not with its square."""
    inputs, kept = drawn(200, 200, torch.float32), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        attention(*inputs)
    assert sum(kept) <= sum(x.numel() for x in inputs)


def test_a_step_on_the_loss_after_a_step() -> None:
    """Meta-learning: the loss after one step, differentiated by the starting point."""
    torch.manual_seed(0)
    block = MultiheadAttentionBlock(4, 2).double()
    parameters, x = dict(block.named_parameters()), torch.randn(2, 5, 4, dtype=torch.float64)

    def after(start: dict[str, Tensor]) -> Tensor:
        run = lambda own: torch.func.functional_call(block, own, (x, x)).square().mean()  # noqa: E731
        steps = torch.autograd.grad(run(start), list(start.values()), create_graph=True)
        return run({n: p - 0.1 * g for (n, p), g in zip(start.items(), steps, strict=True)})

    weight = parameters["query.weight"]
    slope = torch.autograd.grad(after(parameters), weight)[0]
    bump = torch.zeros_like(weight)
    bump[0, 1] = 1e-5
    up, down = (after({**parameters, "query.weight": weight + sign * bump}).item() for sign in (1, -1))
    assert slope[0, 1].item() == pytest.approx((up - down) / 2e-5, rel=1e-5)
