"""What the tracer cannot follow is fixed and noted; what it claims holds."""

import copy
import logging
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wsl import TraceError, trace, verify


class Between(nn.Module):
    """Applies a function of the tensor to the eight neurons between two linear layers."""

    def __init__(self, function: Callable[[Tensor], Tensor], outputs: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(3, 8)
        self.middle = Function(function)
        self.last = nn.Linear(outputs, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.middle(torch.sigmoid(self.first(x))))


class Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


LIBRARY = torch.library.Library("wsl_tests", "DEF")
LIBRARY.define("shifted(Tensor x) -> Tensor")
LIBRARY.impl("shifted", lambda x: x.roll(1, -1), "CompositeExplicitAutograd")
shifted = torch.ops.wsl_tests.shifted


@pytest.fixture(autouse=True)
def _no_failing_rules(caplog):
    yield
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def _inputs() -> Tensor:
    return torch.randn(5, 3)


ORDERED = {
    "cumsum": lambda h: h.cumsum(-1),
    "flip": lambda h: h.flip(-1),
    "roll": lambda h: h.roll(2, -1),
    "cumprod": lambda h: h.cumprod(-1),
    "slice": lambda h: h.repeat(1, 2)[:, ::2],
    "convolution": lambda h: F.conv1d(h[:, None], torch.ones(1, 1, 3), padding=1)[:, 0],
    "numpy": lambda h: torch.from_numpy(np.roll(h.numpy(), 1, -1)),
    "roll in": lambda h: torch.from_dlpack(torch.utils.dlpack.to_dlpack(h)).roll(1, -1),
    "array": lambda h: torch.as_tensor(np.roll(np.asarray(h), 1, -1)),
    "deepcopy": lambda h: copy.deepcopy(h).roll(1, -1),
    "tolist": lambda h: h + torch.tensor(h.tolist()),
    "wsl_tests::shifted": lambda h: shifted(h),
    "as_strided": lambda h: h.as_strided((5, 8), (1, 5)),
    "a constant": lambda h: h * CONSTANT,
    "topk": lambda h: h.topk(8, -1, sorted=False).values,
    "apply": lambda h: h.clone().apply_(lambda entry: entry * entry),
    "map": lambda h: h.map_(h.roll(1, 0), lambda a, b: a * b),
    "max_pool2d": lambda h: _places_of_maxima(h),
}
CONSTANT = torch.linspace(0.5, 1, 8)


def _places_of_maxima(h: Tensor) -> Tensor:
    values, places = F.max_pool2d(torch.stack([h, h.roll(1, 0)], 1)[:, None], (2, 1), return_indices=True)
    return (values * places).flatten(1)


@pytest.mark.parametrize("operator", ORDERED)
def test_an_axis_whose_order_matters_is_fixed_and_noted(operator):
    module = Between(ORDERED[operator])
    spec = trace(module, _inputs())
    assert not spec.hidden_axes
    notes = {note.axis: note.reason for note in spec.notes}
    (axis,) = spec.tensors["first.bias"].axes
    assert operator in notes[axis]
    assert notes[axis].split(",")[0].endswith(" in middle")
    verify(module, spec, _inputs())


UNKNOWN = {
    "wsl_tests::shifted": shifted,
    "as_strided": lambda h: h.as_strided((5, 8), (1, 5)),
    "numpy": ORDERED["numpy"],
}


@pytest.mark.parametrize("operator", UNKNOWN)
def test_strict_refuses_what_no_rule_describes(operator):
    with pytest.raises(TraceError, match=f"{operator} in middle"):
        trace(Between(UNKNOWN[operator]), _inputs(), strict=True)


def test_strict_accepts_unknown_operators_on_inputs_and_known_ones_that_fix():
    class Preprocessed(Between):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(shifted(x))

    spec = trace(Preprocessed(lambda h: h.cumsum(-1)), _inputs(), strict=True)
    assert not spec.hidden_axes


SYMMETRIC = {
    "sort": (lambda h: h.sort(-1).values, 8),
    "topk": (lambda h: h.topk(8, -1).values, 8),
    "sum": (lambda h: h + h.sum(-1, keepdim=True), 8),
    "max": (lambda h: h - h.max(-1, keepdim=True).values, 8),
    "norm": (lambda h: F.normalize(h, dim=-1), 8),
    "std": (lambda h: h / (h.std(-1, keepdim=True) + h.var(-1, keepdim=True)), 8),
    "logsumexp": (lambda h: h - h.logsumexp(-1, keepdim=True), 8),
    "softmax": (lambda h: h.softmax(-1), 8),
    "branch": (lambda h: h * 2 if h.sum() > 0 else -h, 8),
    "item": (lambda h: h * h.mean().item(), 8),
    "where": (lambda h: torch.where(h > 0.5, h, torch.zeros_like(h)), 8),
    "masked_fill": (lambda h: h.masked_fill(h < 0.5, -1.0), 8),
    "lerp": (lambda h: torch.lerp(h, h * h, 0.3).clamp(0.1, 0.4), 8),
    "addcmul": (lambda h: torch.addcmul(h, h, h, value=0.5).addcdiv(h, 1 + h), 8),
    "gram": (lambda h: h @ (h.t() @ h), 8),
    "einsum": (lambda h: torch.einsum("ni,nj,nj->ni", h, h, h), 8),
    "inplace": (lambda h: h.mul_(2).add_(1).tanh_(), 8),
    "written": (lambda h: torch.zeros(5, 8).copy_(h) + torch.ones(8), 8),
    "written part": (lambda h: _written(h), 10),
    "pad": (lambda h: F.pad(h, (1, 1), value=0.5), 10),
    "repeat": (lambda h: h.repeat(1, 2), 16),
    "repeat_interleave": (lambda h: h.repeat_interleave(2, 1), 16),
    "outer": (lambda h: (h[:, :, None] * h[:, None, :]).flatten(1), 64),
    "expand": (lambda h: h[:, None].expand(5, 3, 8).reshape(5, 24), 24),
    "stack": (lambda h: torch.stack([h, h * h], 1).permute(0, 2, 1).flatten(1), 16),
    "bmm": (lambda h: torch.bmm(h[:, :, None], h[:, None, :]).sum(1), 8),
    "glu": (lambda h: F.glu(torch.cat([h, h * h], 1)), 8),
    "decomposed": (lambda h: torch.special.xlog1py(h, h), 8),
    "unbind": (lambda h: torch.stack(h[:, None].expand(5, 2, 8).unbind(1), 1).sum(1), 8),
    "float32": (lambda h: h.double().float().to(torch.float64).to(h.dtype), 8),
    "complex": (lambda h: (h > 0.5).to(h.dtype) * h.abs().sqrt().reciprocal().pow(3), 8),
    "data": (lambda h: h * h.data.detach().clone(), 8),
    "written where": (lambda h: _written_where(h, 0.0) + _written_where(h, h.mean()), 8),
    "sparse": (lambda h: torch.sparse.mm(torch.eye(5).to_sparse().to(h.dtype), h), 8),
    "complex power": (lambda h: (h.to(torch.complex64) ** (1 + 1j)).real, 8),
    "infinite power": (lambda h: h + h ** float("inf"), 8),
}


def _written_where(h: Tensor, number: float | Tensor) -> Tensor:
    h = h.clone()
    h[h < 0.5] = number
    return h


def _written(h: Tensor) -> Tensor:
    padded = h.new_zeros(h.shape[0], 10)
    padded[:, 1:-1] = h
    padded[:, 0] = h.sum(1)
    return padded


@pytest.mark.parametrize("name", SYMMETRIC)
def test_an_axis_whose_order_does_not_matter_stays_free(name):
    function, outputs = SYMMETRIC[name]
    module = Between(function, outputs)
    spec = trace(module, _inputs())
    assert any(axis.size in (8, 4) for axis in spec.hidden_axes)
    (axis,) = spec.tensors["first.bias"].axes
    assert spec.axes[axis].kind == "hidden"
    verify(module, spec, _inputs())


PARTIAL = {
    "select": (lambda h: h[:, 2:3] * h, [2, 1, 5]),
    "index": (lambda h: h * h[:, 2, None], [2, 1, 5]),
    "slices": (lambda h: torch.cat([h[:, 5:], h[:, :5].tanh()], 1), [5, 3]),
    "halves": (lambda h: torch.cat([h[:, :4] + h[:, 4:], h[:, 4:] * h[:, :4]], 1), [4]),
    "product": (lambda h: h.view(5, 2, 4).transpose(1, 2).reshape(5, 8), [2, 4]),
    "pooled": (lambda h: (h.view(5, 2, 4) / h.view(5, 2, 4).amax(2, keepdim=True)).view(5, 8), [2, 4]),
    "data of a part": (lambda h: h + h.data[:, 0:1], [1, 7]),
}


@pytest.mark.parametrize("name", PARTIAL)
def test_an_axis_is_refined_as_far_as_its_use_asks(name):
    function, sizes = PARTIAL[name]
    module = Between(function)
    spec = trace(module, _inputs())
    assert [axis.size for axis in spec.hidden_axes] == sizes
    verify(module, spec, _inputs())


def test_maxima_are_followed_but_their_indices_fix():
    def largest(h: Tensor) -> Tensor:
        value, index = h.max(-1, keepdim=True)
        return h - value + h.gather(-1, index) * index

    module = Between(largest)
    spec = trace(module, _inputs())
    assert not spec.hidden_axes
    verify(module, spec, _inputs())


def test_constant_buffers_fix_but_running_statistics_move():
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)
            self.register_buffer("mask", torch.rand(8))

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.mask * self.norm(self.first(x)))

    spec = trace(Masked(), _inputs())
    assert "mask" not in spec.tensors
    assert "norm.num_batches_tracked" not in spec.tensors
    assert spec.tensors["norm.running_var"].axes == ("f1",)
    assert [(note.axis, note.reason) for note in spec.notes] == [("f1", "the constant buffer mask")]


def test_unused_parameters_are_fixed_with_a_note():
    class Spare(Between):
        def __init__(self) -> None:
            super().__init__(lambda h: h)
            self.spare = nn.Linear(8, 8)

    spec = trace(Spare(), _inputs())
    assert [axis.name for axis in spec.hidden_axes] == ["h1"]
    assert spec.tensors["spare.weight"].axes == ("f1", "f2")
    assert {note.reason for note in spec.notes} == {"not used in the forward pass"}


def test_views_of_parameters_made_before_the_trace_fix_them():
    class Viewed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 3))
            self.first_row = self.weight.detach()[0]
            self.last = nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(F.linear(x, self.weight)) + self.first_row.sum()

    assert not trace(Viewed(), _inputs()).hidden_axes


def test_aliases_of_written_tensors_are_followed():
    def aliased(h: Tensor) -> Tensor:
        view = h.view(5, 2, 4)
        h[:, :4].mul_(torch.arange(1.0, 5.0))
        return view.flatten(1)

    module = Between(aliased)
    spec = trace(module, _inputs())
    assert [axis.size for axis in spec.hidden_axes] == []
    verify(module, spec, _inputs())


def test_memory_that_numpy_writes_to_is_followed_no_more():
    def shared(h: Tensor) -> Tensor:
        scratch = torch.zeros(5, 8)
        np.copyto(scratch.numpy(), np.roll(h.numpy(), 1, -1))
        return torch.sigmoid(torch.ones(8) * scratch)

    module = Between(shared)
    spec = trace(module, _inputs())
    assert not spec.hidden_axes
    verify(module, spec, _inputs())


def test_a_rule_that_fails_fixes_and_warns(caplog, monkeypatch):
    from wsl.trace.rules import RULES

    def broken(trace, call):
        raise RuntimeError("broken")

    monkeypatch.setitem(RULES, "sigmoid", broken)
    module = Between(lambda h: h)
    assert not trace(module, _inputs()).hidden_axes
    assert "the rule of sigmoid" in caplog.text
    caplog.clear()


RESHAPED_IN_PLACE = {
    "transpose_": lambda h: h.transpose_(1, 2),
    "swapdims_": lambda h: h.swapdims_(1, 2),
    "squeeze_": lambda h: h.unsqueeze_(1).squeeze_(1).transpose_(1, 2),
    "as_strided_": lambda h: h.as_strided_((4, 8, 8), (64, 1, 8)),
}


@pytest.mark.parametrize("name", RESHAPED_IN_PLACE)
def test_a_transposition_in_place_exchanges_axes_of_equal_sizes(name):
    module = Between(RESHAPED_IN_PLACE[name])
    inputs = torch.randn(4, 8, 3)
    spec = trace(module, inputs)
    assert spec.hidden_axes == ()  # eight neurons, now mixed by a layer along the eight tokens' places
    verify(module, spec, inputs)


def test_destinations_of_operators_are_not_operands():
    def doubled(h: Tensor) -> Tensor:
        out = torch.empty_like(h)
        torch.add(h, h, out=out)
        return out

    module = Between(doubled)
    spec = trace(module, _inputs())
    assert [axis.size for axis in spec.hidden_axes] == [8]
    verify(module, spec, _inputs())


ALONE = {
    "squeeze": lambda h: h.squeeze(0).cumsum(0).view(-1, 8),
    "shape": lambda h: h.flip(1) if h.shape[0] == 1 else h,
}


@pytest.mark.parametrize("name", ALONE)
def test_a_batch_of_one_counts_as_it_is_where_the_module_treats_it_otherwise(name):
    module, inputs = Between(ALONE[name]), torch.randn(1, 3)
    spec = trace(module, inputs)
    assert not spec.hidden_axes  # with a batch of two, neither would depend on the order of neurons
    verify(module, spec, inputs)
