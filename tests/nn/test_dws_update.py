"""The hand-derived update of DWS-layers equals plain operators, forward and backward."""

import pytest
import torch
from torch import Tensor

from wsl.nn import _edge_update
from wsl.nn._dws_update import update_matrix


def arguments(*, batch: int = 5, ties: bool = False) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = [(batch, 3, 4, 2), (2, 6), (batch, 3, 6), (batch, 4, 6), (3,), (3,)]
    tensors = [torch.randn(*shape, dtype=torch.float64) for shape in shapes]
    if ties:
        tensors[0][:, 1], tensors[2][:, 1] = tensors[0][:, 0], tensors[2][:, 0]
    return [tensor.requires_grad_() for tensor in tensors]


def fast(matrix: Tensor, weight: Tensor, rows: Tensor, columns: Tensor, *norm: Tensor) -> tuple[Tensor, ...]:
    return update_matrix(matrix, weight, [rows, columns], *norm)


def plain(
    matrix: Tensor, weight: Tensor, rows: Tensor, columns: Tensor, gain: Tensor, offset: Tensor
) -> tuple[Tensor, ...]:
    new = matrix @ weight + rows[:, :, None] + columns[:, None]
    groups = torch.stack([new[..., :3], new[..., 3:]], -2)
    groups = groups - groups.mean(-1, keepdim=True)
    groups = groups / (groups.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain + offset
    new = torch.cat([groups[..., 0, :], groups[..., 1, :]], -1).relu()
    return new, new.amax(2), new.amax(1)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("chunk", [1, 1 << 12, 1 << 30])
def test_equals_plain_operators(chunk: int, ties: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_edge_update, "_CHUNK_BYTES", chunk)
    inputs = arguments(ties=ties)
    found, expected = fast(*inputs), plain(*inputs)
    weights = [torch.randn_like(out) for out in expected]
    for outputs in (found, expected):
        assert all((a - b).abs().max() < 1e-12 for a, b in zip(outputs, expected, strict=True))
    grads = [torch.autograd.grad(outputs, inputs, weights) for outputs in (found, expected)]
    for a, b in zip(*grads, strict=True):
        assert (a - b).abs().max() < 1e-12


@pytest.mark.parametrize("used", [(0,), (1,), (0, 2)])
def test_unused_outputs_have_no_gradient(used: tuple[int, ...]) -> None:
    inputs = arguments()
    grads = []
    for update in (fast, plain):
        outputs = update(*inputs)
        grads.append(torch.autograd.grad(sum(outputs[i].sin().sum() for i in used), inputs))
    for a, b in zip(*grads, strict=True):
        assert (a - b).abs().max() < 1e-12


def test_gradients_in_another_order_of_memory() -> None:
    inputs, weight = arguments(), torch.randn(5, 4, 3, 6, dtype=torch.float64)
    grads = [
        torch.autograd.grad(update(*inputs)[0].transpose(1, 2), inputs, weight) for update in (fast, plain)
    ]
    for a, b in zip(*grads, strict=True):
        assert (a - b).abs().max() < 1e-12


def test_gradients_of_gradients() -> None:
    inputs = arguments(batch=2)
    assert torch.autograd.gradgradcheck(fast, inputs)


def test_gradients_of_gradients_where_one_input_comes_from_another() -> None:
    matrix, weight, _, _, *norm = arguments(batch=2)

    def made(*given: Tensor) -> tuple[Tensor, ...]:
        matrix, weight, *norm = given
        features = matrix @ weight
        return fast(matrix, weight, features.mean(2), features.sin().mean(1), *norm)

    given = [matrix, weight, *norm]
    found = [
        torch.autograd.grad(sum(x.cos().sum() for x in made(*given)), given, create_graph=create)
        for create in (False, True)
    ]
    for a, b in zip(*found, strict=True):
        assert (a - b).abs().max() < 1e-12
    assert torch.autograd.gradgradcheck(made, given)


def test_constant_inputs_and_empty_batches() -> None:
    matrix, *rest = arguments()
    out = fast(matrix.detach(), *rest)
    assert torch.autograd.grad(out[0].sum(), rest[0])[0].abs().max() > 0
    empty = fast(*(tensor[:0] if i in (0, 2, 3) else tensor for i, tensor in enumerate([matrix, *rest])))
    assert [tuple(value.shape) for value in empty] == [(0, 3, 4, 6), (0, 3, 6), (0, 4, 6)]
    grads = torch.autograd.grad(sum(value.sum() for value in empty), rest[0])
    assert not grads[0].any()
