"""ProbeGen on traced networks: exactly invariant to what keeps a function, and to nothing else."""

import copy

import pytest
import torch
from encoder_suite import MLP, largest_difference
from torch import Tensor, nn

import wsl
from wsl.encoders import ProbeGen
from wsl.models import Siren, coordinate_grid
from wsl.nn import EquivariantHead, GeneratedProbes, InvariantHead
from wsl.spec import SpecError, WeightSpec
from wsl.symmetry import apply, sample
from wsl.testing import assert_equivariant, assert_invariant, random_weights


def _cnn() -> tuple[nn.Module, Tensor]:
    layers = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 2, 3), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(32, 4)).eval(), torch.rand(3, 1, 8, 8)


MODULES = {
    "siren": lambda: (Siren(2, (5, 4), 1), coordinate_grid((4, 4))),
    "cnn": _cnn,
    "transformer": lambda: (
        nn.Sequential(nn.TransformerEncoderLayer(4, 2, 6, batch_first=True), nn.Linear(4, 2)).eval(),
        torch.rand(2, 5, 4),
    ),
}


def _made(name: str = "siren") -> ProbeGen:
    torch.manual_seed(0)
    module, examples = MODULES[name]()
    spec = wsl.trace(module, examples)
    probes = GeneratedProbes(module, spec, examples, probes=3, latent=4, width=2)
    return ProbeGen(spec, channels=6, layers=1, hidden=8, probes=probes).double()


@pytest.mark.parametrize("name", MODULES)
def test_invariant(name: str) -> None:
    encoder = _made(name)
    spec = encoder.spec
    head, pool = EquivariantHead(spec, 6, scale=1.0).double(), InvariantHead(spec, 6, 3).double()
    assert_equivariant(nn.Sequential(encoder, head), spec, atol=1e-9)
    weights = {n: w.abs() if "running_var" in n else w for n, w in random_weights(spec, 2).items()}
    assert_invariant(nn.Sequential(encoder, pool), spec, atol=1e-9)
    action = sample(spec, 2, scale=True, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert largest_difference(encoder(weights), encoder(apply(spec, action, weights))) < 1e-9


@pytest.mark.parametrize("name", MODULES)
def test_every_weight_matters_and_networks_do_not_mix(name: str) -> None:
    encoder = _made(name)
    weights = {n: w.abs() if "running_var" in n else w for n, w in random_weights(encoder.spec, 3).items()}
    together = encoder(weights)
    for b in range(3):
        alone = encoder({n: w[b : b + 1] for n, w in weights.items()})
        for key in together.tensors:
            assert torch.allclose(alone.tensors[key][0], together.tensors[key][b], atol=1e-12, rtol=0)
    for n in weights:
        changed = {**weights, n: weights[n].clone()}
        changed[n].reshape(3, -1)[:, -1] += 0.1
        assert largest_difference(encoder(changed), together) > 1e-9, n


def test_gradients_and_checkpoint() -> None:
    encoder, other = _made(), _made()
    weights = random_weights(encoder.spec, 2)
    leaves = [weight.requires_grad_() for weight in weights.values()]

    def total(*tensors: Tensor) -> Tensor:
        return encoder(dict(zip(weights, tensors, strict=True))).nodes["x"].cos().sum()

    assert torch.autograd.gradcheck(total, leaves, fast_mode=True)
    total(*leaves).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters())
    with torch.no_grad():
        for p in other.parameters():
            p.add_(0.1)
    assert largest_difference(encoder(weights), other(weights)) > 0
    other.load_state_dict(encoder.state_dict())
    assert largest_difference(encoder(weights), other(weights)) == 0
    assert largest_difference(encoder(weights), copy.deepcopy(encoder)(weights)) == 0


def test_zero_weights_and_statistics() -> None:
    """Networks run with their raw weights: statistics change nothing."""
    encoder = _made("cnn")
    weights = {n: torch.zeros(2, *t.shape).double() for n, t in encoder.spec.tensors.items()}
    plain = encoder(weights)
    assert all(value.isfinite().all() for part in plain for value in part.values())
    keys = [ref.key for ref in encoder.spec.blocks]
    encoder.set_statistics(dict.fromkeys(keys, 0.5), dict.fromkeys(keys, 2.0))
    assert largest_difference(encoder(weights), plain) == 0


def test_bad_arguments() -> None:
    probes = _made().probes
    with pytest.raises(ValueError, match="nothing to look at"):
        ProbeGen(MLP)
    with pytest.raises(SpecError, match="of another architecture"):
        ProbeGen(MLP, probes=probes)
    with pytest.raises(ValueError, match="channels=0"):
        ProbeGen(probes.spec, channels=0, probes=probes)
    with pytest.raises(SpecError, match=r"missing layers\.0\.weight"):
        _made()({})
    assert isinstance(probes.spec, WeightSpec)
