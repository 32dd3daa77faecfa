"""Random programs: whatever group the tracer finds has to leave the function unchanged."""

import logging
import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from wsl import trace
from wsl.testing import assert_preserves_function
from wsl.trace._facts import aligned
from wsl.trace.rules import RULES

TOKENS = 4
LARGEST = 24


class Program(nn.Module):
    """Applies steps to tensors ``(B, T, C)``; each reads earlier tensors and may reuse parameters."""

    def __init__(self, steps: list[str], seed: int) -> None:
        super().__init__()
        self.steps, self.seed = steps, seed
        self.weights = nn.ParameterList()
        self.building = True
        self(torch.randn(2, TOKENS, 3))
        self.building = False

    def forward(self, x: Tensor) -> list[Tensor]:
        self.draw, self.used = random.Random(self.seed), 0
        values = [F.linear(x, self.weight(8, 3), self.weight(8))]
        for step in self.steps:
            value = STEPS[step](self, values[-1], self.draw.choice(values))
            if value is not None and value.shape[-1] <= LARGEST:
                values.append(value / 2)
        return [F.linear(value, self.weight(3, value.shape[-1])).sum(1) for value in values[-2:]]

    def weight(self, *shape: int) -> Tensor:
        """A parameter: an earlier one of this shape, or else the next."""
        fitting = [w for w in list(self.weights)[: self.used] if w.shape == shape]
        if fitting and self.draw.random() < 0.3:
            return self.draw.choice(fitting)
        if self.building:
            self.weights.append(nn.Parameter(torch.randn(shape) / shape[-1] ** 0.5))
        self.used += 1
        return self.weights[self.used - 1]


Step = Callable[[Program, Tensor, Tensor], Tensor | None]


def _like(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape


def _grouped(p: Program, a: Tensor, b: Tensor) -> Tensor | None:
    channels = a.shape[-1]
    if channels % 2:
        return None
    weight = p.weight(6, channels // 2, 3)
    return F.conv1d(a.transpose(1, 2), weight, padding=1, groups=2).transpose(1, 2)


def _group_norm(p: Program, a: Tensor, b: Tensor) -> Tensor | None:
    channels = a.shape[-1]
    if channels % 2:
        return None
    return F.group_norm(a.transpose(1, 2), 2, p.weight(channels), p.weight(channels)).transpose(1, 2)


def _gated(p: Program, a: Tensor, b: Tensor) -> Tensor | None:
    return None if a.shape[-1] % 2 else F.glu(a, -1)


def _shuffled(p: Program, a: Tensor, b: Tensor) -> Tensor | None:
    channels = a.shape[-1]
    return None if channels % 2 else a.unflatten(-1, (2, channels // 2)).transpose(-1, -2).flatten(-2)


def _written(p: Program, a: Tensor, b: Tensor) -> Tensor:
    y = a.new_zeros(*a.shape[:2], a.shape[-1] + 2)
    y[..., 1:-1] = a
    y[:, 0].add_(1.0)
    y[..., 0] = a[..., -1]
    return y


def _scan(p: Program, a: Tensor, b: Tensor) -> Tensor:
    state, weight = a.new_zeros(a.shape[0], a.shape[-1]), p.weight(a.shape[-1], a.shape[-1])
    states = []
    for token in a.unbind(1):
        state = torch.tanh(token + state @ weight.t())
        states.append(state)
    return torch.stack(states, 1)


STEPS: dict[str, Step] = {
    "linear": lambda p, a, b: F.linear(a, p.weight(6, a.shape[-1]), p.weight(6)),
    "wide": lambda p, a, b: F.linear(a, p.weight(8, a.shape[-1])),
    "relu": lambda p, a, b: torch.relu(a),
    "tanh": lambda p, a, b: torch.tanh(a),
    "gelu": lambda p, a, b: F.gelu(a),
    "square": lambda p, a, b: a * a,
    "abs": lambda p, a, b: a.abs(),
    "add": lambda p, a, b: a + b if _like(a, b) else None,
    "residual": lambda p, a, b: a + torch.tanh(F.linear(a, p.weight(a.shape[-1], a.shape[-1]))),
    "multiply": lambda p, a, b: a * b if _like(a, b) else None,
    "divide": lambda p, a, b: a / (1 + b.abs()) if _like(a, b) else None,
    "where": lambda p, a, b: torch.where(a > 0, b, a) if _like(a, b) else None,
    "maximum": lambda p, a, b: torch.maximum(a, b) if _like(a, b) else None,
    "cat": lambda p, a, b: torch.cat([a, b], -1),
    "slice": lambda p, a, b: a[..., 1 : 1 + max(1, a.shape[-1] // 2)],
    "stride": lambda p, a, b: a[..., ::2],
    "halves": lambda p, a, b: None if a.shape[-1] % 2 else torch.cat(a.chunk(2, -1)[::-1], -1),
    "shuffle": _shuffled,
    "layer_norm": lambda p, a, b: F.layer_norm(a, a.shape[-1:], p.weight(a.shape[-1]), p.weight(a.shape[-1])),
    "group_norm": _group_norm,
    "glu": _gated,
    "conv": lambda p, a, b: F.conv1d(a.transpose(1, 2), p.weight(6, a.shape[-1], 3), padding=1).transpose(
        1, 2
    ),
    "grouped": _grouped,
    "depthwise": lambda p, a, b: F.conv1d(
        a.transpose(1, 2), p.weight(a.shape[-1], 1, 3), padding=1, groups=a.shape[-1]
    ).transpose(1, 2),
    "tokens": lambda p, a, b: F.linear(a.transpose(1, 2), p.weight(TOKENS, TOKENS)).transpose(1, 2),
    "mean": lambda p, a, b: a + a.mean(-1, keepdim=True),
    "largest": lambda p, a, b: a - a.amax(-1, keepdim=True),
    "softmax": lambda p, a, b: a.softmax(-1),
    "normalize": lambda p, a, b: F.normalize(a, dim=-1),
    "cumsum": lambda p, a, b: a.cumsum(-1),
    "flip": lambda p, a, b: a.flip(-1),
    "roll": lambda p, a, b: a.roll(1, -1),
    "sort": lambda p, a, b: a.sort(-1).values,
    "topk": lambda p, a, b: a.topk(2, -1).values if a.shape[-1] > 2 else None,
    "pad": lambda p, a, b: F.pad(a, (1, 2), value=1.0),
    "repeat": lambda p, a, b: a.repeat(1, 1, 2),
    "outer": lambda p, a, b: (a[..., :, None] * a[..., None, :]).flatten(2) if a.shape[-1] <= 4 else None,
    "gram": lambda p, a, b: a @ (p.weight(a.shape[-1], a.shape[-1]) @ p.weight(a.shape[-1], a.shape[-1]).t()),
    "tied": lambda p, a, b: torch.tanh(a @ p.weight(6, a.shape[-1]).t()) @ p.weight(6, a.shape[-1]),
    "diagonal": lambda p, a, b: a * p.weight(a.shape[-1], a.shape[-1]).diagonal(),
    "parts": lambda p, a, b: a * p.weight(2 * a.shape[-1])[: a.shape[-1]],
    "constant": lambda p, a, b: a * torch.linspace(0.5, 1, a.shape[-1], dtype=a.dtype),
    "attend": lambda p, a, b: (a @ a.transpose(1, 2)).softmax(-1) @ a,
    "written": _written,
    "scan": _scan,
    "numpy": lambda p, a, b: a + torch.from_numpy(a.detach().numpy().copy()),
    "branch": lambda p, a, b: a + 1 if a.sum() > 0 else a * 2,
}


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=9), st.integers(0, 9))
def test_the_group_found_for_a_random_program_leaves_it_unchanged(steps, seed):
    torch.manual_seed(seed)
    program = Program(steps, seed)
    inputs = torch.randn(2, TOKENS, 3)
    assert_preserves_function(program, trace(program, inputs), inputs, trials=2, seed=seed)


@pytest.mark.parametrize("step", sorted(STEPS))
def test_every_step_is_described_and_followed_alone(step, caplog):
    program = Program(["tanh", step, "linear", "tanh"], 0)
    inputs = torch.randn(2, TOKENS, 3)
    spec = trace(program, inputs)
    assert_preserves_function(program, spec, inputs)
    assert any(axis.size > 1 for axis in spec.hidden_axes)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def _unchanged(trace, call):
    """As if the operator did nothing but copy its first operand."""
    trace.facts.same(trace.value(call.tensors[0]), trace.assign(call.out, trace.value(call.tensors[0]).dims))


def _untied(trace, call):
    """A matrix product that forgets that rows and columns are summed together."""
    left, right = map(trace.value, call.tensors[-2:])
    trace.facts.opaque(left, right, trace.assign(call.out, (left.dims[0], right.dims[1])))


def _odd(trace, call):
    x = trace.value(call["self"])
    trace.facts.apply(aligned(x), aligned(trace.assign(call.out, x.dims)), parity="odd", name="gelu")


WRONG = {
    "cumsum": (_unchanged, ["tanh", "cumsum", "tanh"]),
    "flip": (_unchanged, ["tanh", "flip", "multiply"]),
    "add": (_unchanged, ["residual", "linear"]),
    "addmm": (_untied, ["tanh", "linear", "tanh"]),
    "gelu": (_odd, ["gelu", "linear"]),
    "_softmax": (_unchanged, ["softmax", "linear"]),
}


@pytest.mark.parametrize("operator", WRONG)
def test_a_wrong_rule_is_caught(operator, monkeypatch):
    rule, steps = WRONG[operator]
    monkeypatch.setitem(RULES, operator, rule)
    program, inputs = Program(steps, 0), torch.randn(2, TOKENS, 3)
    with pytest.raises(AssertionError, match="changes by"):
        assert_preserves_function(program, trace(program, inputs), inputs)
