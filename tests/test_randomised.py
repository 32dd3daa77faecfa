"""What verify runs: examples, outputs, random state in float64, modules that it refuses."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from wsl._float64 import Float64Inside
from wsl._verify import SymmetryError, verify
from wsl.models import Siren
from wsl.spec import SpecError, WeightSpec
from wsl.testing import assert_preserves_function, mutations
from wsl.trace import trace


def _spec(text: str) -> WeightSpec:
    return WeightSpec.parse(text)


LINEAR = _spec("axes h1: 4 hidden\n0.weight h1 _ _=3\n0.bias h1\n2.weight _ h1 _=2")


def _linear(activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), activation, nn.Linear(4, 2, bias=False))


def test_fresh_modules_do_not_hide_errors():
    """A zero head and constant biases make any permutation of the stream harmless, until randomised."""
    module = _linear(nn.ReLU())
    nn.init.zeros_(module[2].weight)
    wrong = _spec("axes h1: 4 hidden  h2: 4 hidden\n0.weight h1 _ _=3\n0.bias h1\n2.weight _ h2 _=2")
    assert torch.equal(module(torch.ones(2, 3)), torch.zeros(2, 2))
    with pytest.raises(SymmetryError, match="permuting axis h2 changes the function: relative error"):
        verify(module, wrong, torch.ones(2, 3))


class Elementwise(nn.Module):
    """Applies a function of one tensor."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        return self.function(x)


def test_nan_is_an_error_that_says_so():
    with pytest.raises(SymmetryError, match="output holds NaN on the randomised module"):
        verify(_linear(Elementwise(torch.log)), LINEAR, torch.ones(2, 3))


def test_outputs_without_tensors_are_refused():
    module = nn.Sequential(*_linear(nn.ReLU()), Elementwise(lambda x: {"nothing": None}))
    with pytest.raises(SymmetryError, match="holds no tensors"):
        verify(module, LINEAR, torch.ones(2, 3))


def test_what_asks_for_a_narrower_type_computes_in_float64():
    def normalised(x: Tensor) -> Tensor:
        narrow = x.to(torch.float32)
        scales = torch.tensor([[0.1]], dtype=torch.float32) @ torch.ones(1, 1, dtype=torch.float16)
        return (narrow * narrow.square().mean(1, keepdim=True, dtype=torch.float32)).type_as(x) * scales

    assert verify(_linear(Elementwise(normalised)), LINEAR, torch.ones(2, 3)).worst_error < 1e-14


def test_products_by_groups_have_a_form_for_float64():
    def grouped(x: Tensor) -> Tensor:
        stops = torch.tensor([1, 4], dtype=torch.int32)
        x = torch.nn.functional.pad(x, (0, 4))  # the operator wants rows of 16 bytes
        return torch._grouped_mm(x, torch.stack([torch.eye(8), 2 * torch.eye(8)]), offs=stops)[:, :4]

    narrow, wide = torch.randn(4, 4), torch.randn(4, 4, dtype=torch.float64)
    assert torch.equal(grouped(narrow), narrow * torch.tensor([[1], [2], [2], [2]]))
    with Float64Inside():
        assert torch.equal(grouped(wide), wide * torch.tensor([[1], [2], [2], [2]]))
    assert torch.get_default_dtype() == torch.float32


def test_float32_inside_is_recognised():
    def outside_of_torch(x: Tensor) -> Tensor:
        return x * torch.from_numpy(np.exp(x.numpy().astype(np.float32)).sum(1, keepdims=True))

    with pytest.raises(SymmetryError, match="float32 inside the module"):
        verify(_linear(Elementwise(outside_of_torch)), LINEAR, torch.ones(2, 3))


def test_modules_that_remember_are_refused():
    seen = []
    remembering = Elementwise(lambda x: (seen.append(0), x * len(seen))[1])
    remembering.__deepcopy__ = lambda memo: remembering
    with pytest.raises(SymmetryError, match="keeps something between runs"):
        verify(_linear(remembering), LINEAR, torch.ones(2, 3))


class Noisy(nn.Module):
    """Draws noise, keeps a constant outside its state, and makes constants: all harmless."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.grid = _linear(nn.ReLU()), torch.linspace(0, 1, 3)

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.body(x + self.grid) + torch.zeros(2) + torch.rand(2), torch.arange(3), x > 0]


def test_noise_and_constants_are_no_obstacle():
    text = str(LINEAR)
    for name in ("0.weight", "0.bias", "2.weight"):
        text = text.replace(name, f"body.{name}")
    assert verify(Noisy(), _spec(text), torch.ones(2, 3)).worst_error < 1e-13


class Tied(nn.Module):
    """An autoencoder whose decoder is its encoder, transposed, under a second name."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(3, 4)
        self.decoder = nn.Module()
        self.decoder.weight = self.encoder.weight

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.encoder(x)) @ self.decoder.weight


def test_tied_tensors_are_one():
    text = "axes h1: 4 hidden\nencoder.weight h1 _ _=3\nencoder.bias h1"
    verify(Tied(), _spec(text), torch.ones(2, 3))
    assert verify(Tied(), _spec(f"{text}\ndecoder.weight h1 _ _=3"), torch.ones(2, 3)).dull == ()
    with pytest.raises(SpecError, match=r"encoder.weight and decoder.weight are one tensor"):
        verify(Tied(), _spec(f"{text}\ndecoder.weight _ _ _=4x3"), torch.ones(2, 3))


class Branching(nn.Module):
    """Reads other tensors for other inputs; returns an object."""

    def __init__(self) -> None:
        super().__init__()
        self.even, self.odd = _linear(nn.Tanh()), _linear(nn.Tanh())

    def forward(self, x: Tensor, *, shift: Tensor | None = None) -> object:
        hidden = self.even[0](x) if len(x) % 2 == 0 else self.odd[0](x)
        y = (self.even if len(x) % 2 == 0 else self.odd)(x if shift is None else x + shift)
        found = SimpleNamespace(logits=y, hidden=hidden)
        found.itself = found
        return found


BRANCHING = """
    axes  h1: 4 hidden  h2: 4 hidden
    even.0.weight  h1 _   _=3
    even.0.bias    h1
    even.2.weight  _ h1   _=2
    odd.0.weight   h2 _   _=3
    odd.0.bias     h2
    odd.2.weight   _ h2   _=2
"""


def _logits(output: object) -> Tensor:
    return output.logits


def test_examples_of_a_list_are_all_run():
    module, spec, x = Branching(), _spec(BRANCHING), torch.ones(6, 3)
    with pytest.raises(SymmetryError, match="axis h2 is dull everywhere"):
        verify(module, spec, x, output=_logits)
    assert verify(module, spec, [x, x[:3]], output=_logits).dull == ()
    assert verify(module, spec, [(x,), (x[:3],)], [{}, {"shift": x[0]}], output=_logits).axes == ("h1", "h2")
    wrong = _spec(BRANCHING.replace("odd.0.bias     h2", "odd.0.bias  _   _=4"))
    with pytest.raises(SymmetryError, match="relative error .* in output of example 2 "):
        verify(module, wrong, [x, x[:3]], {"shift": x[0]}, output=_logits)
    with pytest.raises(TypeError, match="2 examples, but 1 kwargs"):
        verify(module, spec, [x, x[:3]], [{}])
    with pytest.raises(TypeError, match="a tensor or a tuple"):
        verify(module, spec, {"x": x})


def test_what_the_output_is_decides_what_counts():
    with pytest.raises(SymmetryError, match=r"permuting axis h1 .* in output\.hidden"):
        verify(Branching(), _spec(BRANCHING), torch.ones(6, 3))
    assert_preserves_function(Branching(), _spec(BRANCHING), [torch.ones(6, 3)], output=_logits)
    with pytest.raises(AssertionError, match=r"output\.hidden changes"):
        assert_preserves_function(Branching(), _spec(BRANCHING), torch.ones(6, 3))


def test_masks_are_kept():
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = _linear(nn.ReLU())

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            assert set(mask.unique().tolist()) > {-1e9}
            assert len(mask.unique()) == 4, "entries that mask nothing are drawn"
            return (self.net(x).T @ (mask.exp() > 0).double()) + mask.relu().sum()

    text = str(LINEAR)
    for name in LINEAR.tensors:
        text = text.replace(name, f"net.{name}")
    mask = torch.tensor([-1e9, 0.0, -1e9, 0.0, 0.0])
    verify(Masked(), _spec(text), (torch.ones(5, 3), mask))


def test_sparse_inputs_keep_their_entries():
    class Averaged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = _linear(nn.ReLU())

        def forward(self, x: Tensor, neighbours: Tensor) -> Tensor:
            assert neighbours.is_sparse and neighbours.to_dense().equal(torch.eye(5, dtype=torch.float64))
            return self.net(neighbours @ x)

    text = str(LINEAR)
    for name in LINEAR.tensors:
        text = text.replace(name, f"net.{name}")
    verify(Averaged(), _spec(text), (torch.ones(5, 3), torch.eye(5).to_sparse()))


def test_modules_without_numbers_are_refused():
    with pytest.raises(ValueError, match="Sequential is on the meta device"):
        verify(_linear(nn.ReLU()).to("meta"), LINEAR, torch.ones(2, 3))


def test_modules_that_do_not_run_are_refused():
    narrow = Elementwise(
        lambda x: torch.ops.aten._grouped_mm(x[None], torch.ones(1, 4, 4), torch.tensor([1]))
    )
    with pytest.raises(
        ValueError, match="Sequential fails to run in float64 .*NotImplementedError: products"
    ):
        verify(_linear(narrow), LINEAR, torch.ones(2, 3))
    with pytest.raises(ValueError, match="Sequential fails to run"):
        verify(_linear(nn.ReLU()), LINEAR, torch.ones(2, 5))


def test_state_that_the_module_writes_to_starts_the_same_in_every_run():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = _linear(nn.ReLU())
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.count.data += x.sum()
            return self.net(x) * self.count

    text = str(LINEAR)
    for name in LINEAR.tensors:
        text = text.replace(name, f"net.{name}")
    report = verify(Counting(), _spec(text), [torch.ones(2, 3), torch.ones(4, 3)])
    assert report.unlisted == ("count",)


def test_deep_networks_of_fast_sines_are_compared_at_their_own_scale():
    module, inputs = Siren(2, [8] * 7, 1), torch.randn(8, 2)
    spec = trace(module, inputs)
    assert verify(module, spec, inputs).worst_error < 1e-12
    assert_preserves_function(module, spec, inputs)
    for what, wrong in list(mutations(spec))[::16]:
        with pytest.raises(SymmetryError):
            verify(module, wrong, inputs)
            pytest.fail(f"passed although {what}")
