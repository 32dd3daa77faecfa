"""No rule is dead, and whole layers are followed operator by operator."""

import logging

import pytest
import torch
from rule_programs import PROGRAMS
from torch import Tensor, nn

from wsl import trace, verify
from wsl.trace.rules import RULES


def test_every_rule_is_met_and_none_fails(monkeypatch, caplog):
    met = set()
    for name, rule in list(RULES.items()):

        def watched(recorder, call, rule=rule, name=name):
            met.add(name)
            return rule(recorder, call)

        monkeypatch.setitem(RULES, name, watched)
    for program in PROGRAMS.values():
        trace(program.module(), program.inputs())
    returned = {"lift_fresh"}  # gives back its argument, about which nothing new is to be said
    assert RULES.keys() - met == returned
    assert not [r for r in caplog.records if r.name == "wsl.trace._mode" and r.levelno >= logging.WARNING]


def test_the_settings_of_backends_are_put_back():
    settings = {
        "fastpath": torch.backends.mha.get_fastpath_enabled,
        "mkldnn": torch._C._get_mkldnn_enabled,
        "cudnn": torch._C._get_cudnn_enabled,
        "math": torch.backends.cuda.math_sdp_enabled,
        "flash": torch.backends.cuda.flash_sdp_enabled,
        "memory": torch.backends.cuda.mem_efficient_sdp_enabled,
    }
    before = {name: read() for name, read in settings.items()}
    seen = {}

    class Watching(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            seen.update({name: read() for name, read in settings.items()})
            return super().forward(x)

    trace(Watching(3, 2), torch.randn(4, 3))
    assert seen == {name: name == "math" for name in settings}
    assert {name: read() for name, read in settings.items()} == before
    with pytest.raises(ValueError, match="fails to run"):
        trace(Watching(3, 2), torch.randn(4, 5))
    assert {name: read() for name, read in settings.items()} == before


class LastState(nn.Module):
    """A recurrent layer in single precision, which oneDNN would run as one operator."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.cell, self.head = kind(3, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cell(x)[0][:, -1])


@pytest.mark.parametrize(("kind", "gates"), [(nn.RNN, 1), (nn.LSTM, 4), (nn.GRU, 3)])
def test_recurrent_layers_are_followed_through_their_gates(kind, gates):
    module, inputs = LastState(kind), torch.randn(2, 4, 3)
    spec = trace(module, inputs)
    assert [axis.size for axis in spec.hidden_axes] == [5]
    assert spec.tensors["cell.bias_hh_l0"].dims[0] == (("h1",),) * gates
    verify(module, spec, inputs)


@pytest.mark.parametrize(
    "norm", [nn.utils.parametrizations.spectral_norm, nn.utils.spectral_norm], ids=["new", "old"]
)
def test_singular_vectors_of_spectral_norm_move_with_their_weight(norm):
    module = nn.Sequential(norm(nn.Linear(3, 5)), nn.Tanh(), norm(nn.Linear(5, 2)))
    spec = trace(module, torch.randn(4, 3))
    assert [(axis.name, axis.size) for axis in spec.hidden_axes] == [("h1", 5)]
    vectors = [tensor.axes for name, tensor in spec.tensors.items() if name.endswith(("_u", "_v"))]
    assert vectors == [("h1",), ("x",), ("y",), ("h1",)]
    verify(module, spec, torch.randn(4, 3))


def test_weight_norm_permits_a_length_of_each_row():
    norm = nn.utils.parametrizations.weight_norm
    module = nn.Sequential(norm(nn.Linear(3, 5)), nn.Tanh(), norm(nn.Linear(5, 2)))
    spec = trace(module, torch.randn(4, 3))
    (row,) = (scaling for scaling in spec.scalings if scaling.kind == "positive")
    assert [exponent.key for exponent in row.exponents] == ["0.parametrizations.weight.original1"]
    verify(module, spec, torch.randn(4, 3))


def test_signs_of_a_stream_pass_through_rms_norm():
    module = nn.Sequential(nn.Linear(3, 5), nn.RMSNorm(5), nn.Linear(5, 2))
    spec = trace(module, torch.randn(4, 3))
    signs = [scaling for scaling in spec.scalings if scaling.kind == "sign"]
    assert len(signs) == 2
    verify(module, spec, torch.randn(4, 3))


class Rotary(nn.Module):
    """The first ``turned`` entries of each head are turned by buffers of angles (arXiv:2104.09864)."""

    def __init__(self, turned: int) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(3, 16), nn.Linear(3, 16), nn.Linear(3, 16)
        self.out = nn.Linear(16, 2)
        self.turned = turned
        angles = torch.arange(5.0)[:, None] * torch.linspace(1, 2, turned // 2).repeat(2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def turn(self, x: Tensor) -> Tensor:
        turned, rest = x[..., : self.turned], x[..., self.turned :]  # there may be no rest
        a, b = turned.chunk(2, -1)
        return torch.cat([turned * self.cos + torch.cat([-b, a], -1) * self.sin, rest], -1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(2, (2, 8)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        attended = nn.functional.scaled_dot_product_attention(self.turn(q), self.turn(k), v)
        return self.out(attended.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("turned", "free"),
    [
        (8, [2, 8]),  # heads and values
        (4, [2, 4, 8]),  # the rest too
    ],
)
def test_rotary_buffers_fix_what_they_turn(turned, free):
    module, inputs = Rotary(turned), torch.randn(2, 5, 3)
    spec = trace(module, inputs)
    assert sorted(axis.size for axis in spec.hidden_axes) == free
    assert any("the constant buffer cos" in note.reason for note in spec.notes)
    verify(module, spec, inputs)
