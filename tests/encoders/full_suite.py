"""The battery of all encoders, and more: traced networks, autocast, the compiler, empty batches."""

from collections.abc import Callable
from functools import lru_cache

import pytest
import torch
from encoder_suite import CNN, MLP, TRANSFORMER, EncoderSuite, largest_difference
from torch import Tensor, nn

import wsl
from wsl.models import Siren, coordinate_grid
from wsl.nn import EquivariantHead, InvariantHead
from wsl.spec import WeightSpec
from wsl.testing import assert_equivariant, assert_invariant, random_weights


class Residual(nn.Module):
    """A convolutional stage with a projected shortcut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (inner + self.shortcut(x)).relu()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def _mlp() -> WeightSpec:
    layers = nn.Sequential(
        nn.Linear(3, 5, bias=False), nn.ReLU(), nn.Linear(5, 4), nn.GELU(), nn.Linear(4, 2)
    )
    return wsl.trace(layers, torch.randn(2, 3))


def _cnn() -> WeightSpec:
    layers = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(32, 2)
    )
    return wsl.trace(layers.eval(), torch.randn(2, 1, 8, 8))


def _resnet() -> WeightSpec:
    stem = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU())
    stages = (Residual(3, 4), Residual(4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    return wsl.trace(nn.Sequential(stem, *stages).eval(), torch.randn(2, 2, 8, 8))


def _transformer() -> WeightSpec:
    layer = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)
    module = nn.Sequential(nn.Linear(3, 4), layer, nn.Linear(4, 2)).eval()
    return wsl.trace(module, torch.randn(2, 5, 3))


_TRACED: dict[str, Callable[[], WeightSpec]] = {
    "mlp": _mlp,
    "siren": lambda: wsl.trace(Siren(2, (5, 4), 1), coordinate_grid((4, 4))),
    "cnn": _cnn,
    "resnet": _resnet,
    "lstm": lambda: wsl.trace(Recurrent(), torch.randn(2, 4, 3)),
    "transformer": _transformer,
}


@lru_cache
def traced(name: str) -> WeightSpec:
    """The specification of a small network, traced once."""
    torch.manual_seed(0)
    return _TRACED[name]()


class FullSuite(EncoderSuite):
    """Subclass it as ``TestName``, and implement :meth:`make`."""

    @pytest.mark.parametrize("name", _TRACED)
    def test_moves_along_with_traced_networks(self, name: str) -> None:
        spec = traced(name)
        encoder = self.seeded(spec).double()
        if self.equivariant:
            head = EquivariantHead(spec, encoder.channels, scale=1.0).double()
            pool = InvariantHead(spec, encoder.channels, 3).double()
            assert_equivariant(encoder, spec, atol=1e-9, trials=1)
            assert_equivariant(nn.Sequential(encoder, head), spec, atol=1e-9, trials=1)
            assert_invariant(nn.Sequential(encoder, pool), spec, atol=1e-9, trials=1)

    def test_empty_batch(self) -> None:
        for spec in (MLP, CNN, TRANSFORMER):
            encoder = self.seeded(spec)
            features = encoder({name: torch.zeros(0, *tensor.shape) for name, tensor in spec.tensors.items()})
            assert InvariantHead(spec, encoder.channels, 3)(features).shape == (0, 3)
            update = EquivariantHead(spec, encoder.channels)(features)
            assert {name: tuple(t.shape[1:]) for name, t in update.items()} == {
                name: tensor.shape for name, tensor in spec.tensors.items()
            }

    @pytest.mark.parametrize("spec", [MLP, CNN, TRANSFORMER], ids=["mlp", "cnn", "transformer"])
    def test_autocast(self, spec: WeightSpec) -> None:
        encoder = self.seeded(spec)
        heads = InvariantHead(spec, encoder.channels, 3), EquivariantHead(spec, encoder.channels, scale=1.0)
        weights = random_weights(spec, 3, dtype=torch.float32)
        exact = heads[0](encoder(weights)), *heads[1](encoder(weights)).values()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rounded = heads[0](encoder(weights)), *heads[1](encoder(weights)).values()
            torch.stack([part.float().sum() for part in rounded]).sum().backward()
        assert all((a - b).abs().max() < 0.1 for a, b in zip(exact, rounded, strict=True))
        assert all(p.grad.isfinite().all() for p in encoder.parameters() if p.grad is not None)
        assert any(p.grad.any() for p in encoder.parameters() if p.grad is not None)

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")  # of torch's compiler
    def test_compiled_in_place(self) -> None:
        encoder, weights = self.seeded(MLP), random_weights(MLP, 2, dtype=torch.float32)
        before = encoder(weights)
        encoder.compile(backend="eager")
        assert largest_difference(encoder(weights), before) == 0
