"""ProbeGen: the battery of all encoders; exactly invariant to what keeps a function, and to nothing else."""

import pytest
import torch
from encoder_suite import EncoderSuite
from probed_module import network_of
from small_networks import MLP, NETWORKS, largest_difference, traced
from torch import Tensor, nn

import wsl
from wsl.encoders import ProbeGen
from wsl.nn import GeneratedProbes
from wsl.spec import SpecError, WeightSpec
from wsl.symmetry import apply, sample
from wsl.testing import random_weights


class TestProbeGen(EncoderSuite):
    standardises = False

    def make(self, spec: WeightSpec) -> ProbeGen:
        module, examples = network_of(spec)
        probes = GeneratedProbes(module, spec, examples, probes=3, latent=4, width=2)
        return ProbeGen(spec, channels=6, layers=1, hidden=8, probes=probes)


def _made(name: str = "siren") -> ProbeGen:
    torch.manual_seed(0)
    return TestProbeGen().make(traced(name)).double()


def _weights(spec: WeightSpec, count: int) -> dict[str, Tensor]:
    return {n: w.abs() if "running_var" in n else w for n, w in random_weights(spec, count).items()}


@pytest.mark.parametrize("name", NETWORKS)
def test_scalings_are_not_seen(name: str) -> None:
    encoder = _made(name)
    weights = _weights(encoder.spec, 2)
    generator = torch.Generator().manual_seed(1)
    action = sample(encoder.spec, 2, scale=True, linear=True, dtype=torch.float64, generator=generator)
    before, after = encoder(weights), encoder(apply(encoder.spec, action, weights))
    assert largest_difference(before, after) < 1e-9


@pytest.mark.parametrize("name", NETWORKS)
def test_every_weight_matters_and_networks_do_not_mix(name: str) -> None:
    encoder = _made(name)
    weights = _weights(encoder.spec, 3)
    together = encoder(weights)
    for b in range(3):
        alone = encoder({n: w[b : b + 1] for n, w in weights.items()})
        for key in together.tensors:
            assert torch.allclose(alone.tensors[key][0], together.tensors[key][b], atol=1e-12, rtol=0)
    for n in weights:
        assert (
            largest_difference(
                encoder({**weights, n: weights[n] + 0.1 * torch.rand_like(weights[n])}), together
            )
            > 1e-9
        ), n


@pytest.mark.parametrize("name", NETWORKS)
def test_autocast_of_networks(name: str) -> None:
    """Networks run in full precision."""
    encoder = _made(name).float()
    weights = {n: w.float() for n, w in _weights(encoder.spec, 2).items()}
    exact = encoder(weights)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = encoder(weights)
        torch.stack([part.float().sum() for part in rounded.nodes.values()]).sum().backward()
    assert largest_difference(exact, rounded) < 0.1
    grads = [p.grad for p in encoder.parameters() if p.grad is not None]
    assert all(grad.isfinite().all() for grad in grads) and any(grad.any() for grad in grads)


def test_reads_other_architectures_with_the_same_inputs_and_outputs() -> None:
    encoder = _made("mlp")
    other = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2))
    spec = wsl.trace(other, torch.rand(2, 3))
    twin = encoder.for_spec(spec, encoder.probes.for_module(other, spec))
    assert [id(p) for p in twin.parameters()] == [id(p) for p in encoder.parameters()]
    weights = random_weights(spec, 2)
    (inputs,) = encoder.probes.made_inputs()
    for b in range(2):
        other.double().load_state_dict({name: tensor[b] for name, tensor in weights.items()})
        vector = encoder.layers(other(inputs).flatten())
        assert (twin(weights).nodes["x"][b] - vector).abs().max() < 1e-12
    assert twin(weights).nodes["x"].shape == (2, 3, 6) and encoder.spec == traced("mlp")


def test_other_architectures_that_do_not_fit() -> None:
    encoder = _made("mlp")
    wide = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 3))
    spec = wsl.trace(wide, torch.rand(2, 3))
    with pytest.raises(SpecError, match="9 numbers .* 6"):
        encoder.for_spec(spec, encoder.probes.for_module(wide, spec))
    with pytest.raises(SpecError, match="of another architecture"):
        encoder.for_spec(spec, encoder.probes)


def test_bad_arguments() -> None:
    probes = _made().probes
    with pytest.raises(ValueError, match="nothing to look at"):
        ProbeGen(MLP)
    with pytest.raises(SpecError, match="of another architecture"):
        ProbeGen(MLP, probes=probes)
    with pytest.raises(ValueError, match="layers=-1"):
        ProbeGen(probes.spec, layers=-1, probes=probes)
