"""Gradients, degenerate networks, half precision, compilers, devices, files, and faulty arguments."""

import copy
import io
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator

import pytest
import torch
from small_networks import CNN, DEGENERATE, MLP, TRANSFORMER, largest_difference
from suite import Suite
from symmetry_suite import EVERY_SPEC
from torch import Tensor, nn

from wsl.encoders import Encoder
from wsl.nn import EquivariantHead, InvariantHead
from wsl.spec import SpecError, WeightSpec
from wsl.testing import random_weights


class Model(nn.Module):
    """An encoder with both heads."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.pool = InvariantHead(encoder.spec, encoder.channels, 3)
        self.head = EquivariantHead(encoder.spec, encoder.channels, scale=1.0)

    def forward(self, weights: dict[str, Tensor]) -> list[Tensor]:
        features = self.encoder(weights)
        return [self.pool(features), *self.head(features).values()]


def total(parts: list[Tensor]) -> Tensor:
    """A number that depends on all entries."""
    return torch.stack([(part.float() * part.float().cos()).sum() for part in parts]).sum()


def loss_of(encoder: Encoder, names: Iterable[str]) -> Callable[..., Tensor]:
    """A number that depends on all features, as a function of the weights in the order of ``names``."""

    def loss(*tensors: Tensor) -> Tensor:
        features = encoder(dict(zip(names, tensors, strict=True)))
        parts = [*features.nodes.values(), *features.tensors.values()]
        return torch.stack([(part * part.cos()).sum() for part in parts]).sum()

    return loss


def tensors_within(value: object, seen: set[int]) -> Iterator[Tensor]:
    """All tensors that a module holds, besides its parameters and buffers."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, nn.Module):
        own = {k: v for k, v in vars(value).items() if k not in ("_parameters", "_buffers")}
        yield from tensors_within(own, seen)
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_within(part, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from tensors_within(part, seen)


class NumericsSuite(Suite):
    """What must work on every encoder, whatever it computes.

    Flags: ``standardises``, whether the encoder reads standardised weights; ``precision``, how far results in
    bfloat16 may be from those in float32, relative to their largest entry; ``reach``, how large weights may
    be, in units of the statistics, without an overflow in float32.
    """

    standardises = True
    precision = 0.1
    reach = 1e8

    @EVERY_SPEC
    def test_gradients(self, spec: WeightSpec) -> None:
        encoder, weights = self.seeded(spec).double(), random_weights(spec, 2)
        leaves, loss = [tensor.requires_grad_() for tensor in weights.values()], loss_of(encoder, weights)
        assert torch.autograd.gradcheck(loss, leaves, fast_mode=True)
        loss(*leaves).backward()
        grads = {name: p.grad for name, p in encoder.named_parameters() if p.requires_grad}
        assert all(grad.isfinite().all() for grad in grads.values() if grad is not None)
        idle = {name for name, grad in grads.items() if grad is None or not grad.any()}
        assert spec != TRANSFORMER or not idle, idle

    def test_gradients_of_gradients(self) -> None:
        """As meta-learning asks for them."""
        encoder, weights = self.seeded(MLP).double(), random_weights(MLP, 2)
        leaves = [tensor.requires_grad_() for tensor in weights.values()]
        assert torch.autograd.gradgradcheck(loss_of(encoder, weights), leaves, fast_mode=True)

    @pytest.mark.parametrize("name", [*DEGENERATE, "cnn", "transformer"])
    def test_zeros_and_degenerate_networks(self, name: str) -> None:
        """Random weights, zeros, and gradients of zero give finite results and finite gradients."""
        spec = {**DEGENERATE, "cnn": CNN, "transformer": TRANSFORMER}[name]
        model = Model(self.seeded(spec))
        drawn = random_weights(spec, 2, dtype=torch.float32)
        for weights in (drawn, {name: torch.zeros_like(weight) for name, weight in drawn.items()}):
            leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
            for factor in (1.0, 0.0):
                parts = model(leaves)
                (factor * total(parts)).backward()
                assert all(part.isfinite().all() for part in parts)
                grads = [p.grad for p in (*model.parameters(), *leaves.values()) if p.grad is not None]
                assert grads and all(grad.isfinite().all() for grad in grads)

    @EVERY_SPEC
    @pytest.mark.parametrize("factor", [1e4, 1e8])
    def test_weights_far_from_the_statistics(self, spec: WeightSpec, factor: float) -> None:
        """As of a network that diverged: it becomes neither NaN nor infinite, and nor do gradients."""
        if factor > self.reach:
            pytest.skip("products of many factors, which nothing bounds")
        model, drawn = Model(self.seeded(spec)), random_weights(spec, 2, dtype=torch.float32)
        leaves = {name: (weight * factor).requires_grad_() for name, weight in drawn.items()}
        parts = model(leaves)
        assert all(part.isfinite().all() for part in parts)
        total(parts).backward()
        grads = [p.grad for p in (*model.parameters(), *leaves.values()) if p.grad is not None]
        assert all(grad.isfinite().all() for grad in grads) and any(grad.any() for grad in grads)

    @EVERY_SPEC
    def test_empty_batch(self, spec: WeightSpec) -> None:
        model = Model(self.seeded(spec))
        pooled, *updates = model({k: torch.zeros(0, *tensor.shape) for k, tensor in spec.tensors.items()})
        assert pooled.shape == (0, 3)
        shapes = [tuple(update.shape) for update in updates]
        assert shapes == [(0, *tensor.shape) for tensor in spec.tensors.values()]

    @EVERY_SPEC
    def test_autocast(self, spec: WeightSpec) -> None:
        model, weights = Model(self.seeded(spec)), random_weights(spec, 3, dtype=torch.float32)
        exact = model(weights)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rounded = model(weights)
            total(rounded).backward()
        for a, b in zip(exact, rounded, strict=True):
            assert (a - b).abs().max() < self.precision * (1 + a.abs().max())
        grads = [p.grad for p in model.encoder.parameters() if p.grad is not None]
        assert all(grad.isfinite().all() for grad in grads) and any(grad.any() for grad in grads)

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")  # of torch's compiler
    def test_compiles(self) -> None:
        """With both heads, forward and backward; as machine code where there is a C++ compiler."""
        torch.compiler.reset()
        model, weights = Model(self.seeded(MLP)), random_weights(MLP, 2, dtype=torch.float32)
        compiled = torch.compile(model, backend="inductor" if shutil.which("g++") else "aot_eager")
        found = []
        for function in (model, compiled):
            model.zero_grad()
            parts = function(weights)
            total(parts).backward()
            found.append([*parts, *(p.grad for p in model.parameters() if p.grad is not None)])
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")  # of torch's compiler
    def test_compiled_in_place(self) -> None:
        torch.compiler.reset()
        encoder, weights = self.seeded(MLP), random_weights(MLP, 2, dtype=torch.float32)
        before = encoder(weights)
        encoder.compile(backend="eager")
        # Not to the last bit: where gradients are written by hand, compilers get plain operators.
        assert largest_difference(encoder(weights), before) < 1e-5

    @EVERY_SPEC
    def test_other_devices(self, spec: WeightSpec) -> None:
        """All that an encoder holds moves: on the meta device, no tensor of another one may meet its own."""
        model = Model(self.seeded(spec)).to("meta")
        weights = {k: torch.zeros(2, *t.shape, device="meta") for k, t in spec.tensors.items()}
        assert all(part.device.type == "meta" for part in model(weights))
        assert not list(tensors_within(model, set())), "held beside parameters and buffers"

    def test_checkpoint(self) -> None:
        encoder, other = self.seeded(MLP).double(), self.make(MLP).double()
        weights = random_weights(MLP, 2)
        keys = [ref.key for ref in MLP.blocks]
        encoder.set_statistics(dict.fromkeys(keys, 0.1), dict.fromkeys(keys, 0.3))
        assert largest_difference(encoder(weights), other(weights)) > 0
        file = io.BytesIO()
        torch.save(encoder.state_dict(), file)
        file.seek(0)
        other.load_state_dict(torch.load(file, weights_only=True))
        for twin in (other, copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
            assert largest_difference(encoder(weights), twin(weights)) == 0

    def test_statistics_standardise(self) -> None:
        encoder, weights = self.seeded(MLP).double(), random_weights(MLP, 2)
        plain = encoder(weights)
        keys = [ref.key for ref in MLP.blocks]
        encoder.set_statistics(dict.fromkeys(keys, 0.5), {**dict.fromkeys(keys, 2.0), "fc3.bias": 0.0})
        moved = {k: v * (1 if k == "fc3.bias" else 2.0) + 0.5 for k, v in weights.items()}
        same = encoder(moved if self.standardises else weights)
        assert largest_difference(same, plain) < 1e-9

    @pytest.mark.parametrize(
        ("mean", "std", "message"),
        [
            ({"fc1.weight": 0.0}, None, "fc1.bias"),
            (None, {"fc1.weight": -1.0}, "negative"),
            ({"fc1.weight": float("nan")}, None, "NaN"),
        ],
    )
    def test_bad_statistics(self, mean: dict | None, std: dict | None, message: str) -> None:
        fine = {ref.key: 1.0 for ref in MLP.blocks}
        if mean is not None and len(mean) == 1 and mean["fc1.weight"] != 0:
            mean = {**fine, **mean}
        std = {**fine, **(std or {})}
        encoder = self.seeded(MLP)
        with pytest.raises(SpecError, match=message):
            encoder.set_statistics(fine if mean is None else mean, std)
        assert not encoder.mean.any() and (encoder.std == 1).all(), "refused, but half of it was kept"

    def test_bad_weights(self) -> None:
        encoder = self.seeded(MLP)
        weights = random_weights(MLP, 2, dtype=torch.float32)
        with pytest.raises(SpecError, match=r"missing fc1\.weight"):
            encoder({k: v for k, v in weights.items() if k != "fc1.weight"})
        with pytest.raises(SpecError, match="extra fc9"):
            encoder({**weights, "fc9": torch.zeros(2, 1)})
        with pytest.raises(SpecError, match=r"fc2\.bias has size 5"):
            encoder({**weights, "fc2.bias": torch.zeros(2, 5)})
        with pytest.raises(SpecError, match=r"fc2\.bias has type torch\.float64"):
            encoder({**weights, "fc2.bias": weights["fc2.bias"].double()})

    def test_no_channels(self) -> None:
        with pytest.raises(ValueError, match="channels=0"):
            type(self.seeded(MLP))(MLP, channels=0)
