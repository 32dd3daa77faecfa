"""Work in chunks equals work at once: values, gradients of first and second order, other types."""

import pytest
import torch
from torch import Tensor

from wsl.nn import _chunked
from wsl.nn._chunked import chunked


def function(batched: list[Tensor], shared: list[Tensor]) -> tuple[Tensor, ...]:
    """Two outputs, one of which reads no shared tensor; writes in place, as layers do."""
    x, y = batched
    new = (x @ shared[0]).add_(y.unsqueeze(1)).tanh() * shared[1]
    return new, new.sum(1), (x * x).sum((1, 2))


def tensors(batch: int = 5) -> list[Tensor]:
    shapes = [(batch, 3, 4), (batch, 4), (4, 4), (4,)]
    return [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def run(*given: Tensor, checkpoint: bool = True) -> tuple[Tensor, ...]:
    return chunked(function, given[:2], given[2:], checkpoint)


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("size", [1, 200, 1 << 30])
def test_equals_work_at_once(size: int, checkpoint: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_chunked, "_CHUNK_BYTES", size)
    given = tensors()
    fast, slow = run(*given, checkpoint=checkpoint), function(given[:2], given[2:])
    weights = [torch.randn_like(out) for out in slow]
    for a, b in zip(fast, slow, strict=True):
        assert (a - b).abs().max() < 1e-12
    for a, b in zip(*(torch.autograd.grad(out, given, weights) for out in (fast, slow)), strict=True):
        assert (a - b).abs().max() < 1e-12


def test_second_derivatives() -> None:
    given = tensors(2)
    assert torch.autograd.gradcheck(run, given)
    assert torch.autograd.gradgradcheck(run, given)


def test_second_derivatives_where_rows_come_from_what_is_shared() -> None:
    def made(*given: Tensor) -> tuple[Tensor, ...]:
        return run(given[0] @ given[2], *given[1:])

    given = tensors(2)
    plain = torch.autograd.grad(torch.stack([out.sum() for out in made(*given)]).sum(), given)
    again = torch.autograd.grad(
        torch.stack([out.sum() for out in made(*given)]).sum(), given, create_graph=True
    )
    for a, b in zip(plain, again, strict=True):
        assert (a - b).abs().max() < 1e-12
    assert torch.autograd.gradgradcheck(made, given)


def test_checkpoints_keep_nothing_else() -> None:
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    for checkpoint in (True, False):
        kept.clear()
        given = tensors()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            run(*given, checkpoint=checkpoint)
        known = {tensor.data_ptr() for tensor in given}
        assert ({tensor.data_ptr() for tensor in kept} <= known) == checkpoint


@pytest.mark.parametrize("used", [0, 1])
def test_gradients_of_some_outputs_to_some_inputs(used: int) -> None:
    given = tensors()
    given[0] = given[0].detach()
    found = []
    for outputs in (run(*given), function(given[:2], given[2:])):
        assert outputs[used].requires_grad
        found.append(torch.autograd.grad(outputs[used].square().sum(), given[1:]))
    for a, b in zip(*found, strict=True):
        assert (a - b).abs().max() < 1e-12


def test_inputs_that_are_not_read_have_no_gradient() -> None:
    given = tensors()
    grads = torch.autograd.grad(run(*given)[2].sum(), given, allow_unused=True)
    assert grads[0] is not None and (grads[0] - 2 * given[0]).abs().max() < 1e-12
    assert grads[1] is None and grads[2] is None and grads[3] is None


@pytest.mark.parametrize("checkpoint", [True, False])
def test_no_networks(checkpoint: bool) -> None:
    given = tensors(0)
    outputs = run(*given, checkpoint=checkpoint)
    assert [tuple(out.shape) for out in outputs] == [(0, 3, 4), (0, 4), (0,)]
    grads = torch.autograd.grad(outputs[0].sum(), given)
    assert not any(grad.any() for grad in grads)


@pytest.mark.parametrize("checkpoint", [True, False])
def test_autocast(checkpoint: bool) -> None:
    given = [x.float() for x in tensors()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = run(*given, checkpoint=checkpoint)
        sum(out.float().sum() for out in outputs).backward()
    assert outputs[0].dtype == torch.bfloat16
    assert (outputs[0] - function(given[:2], given[2:])[0]).abs().max() < 0.1
