"""Probe features of networks of each kind: what they show, and encoders that read them."""

import pytest
import torch
from small_networks import NETWORKS, largest_difference, network
from symmetry_suite import assert_moves_along
from torch import Tensor

from wsl.encoders import GraphMetanetwork, NeuralGraphGNN
from wsl.nn import ProbeFeatures
from wsl.testing import random_weights

# Which axes no module shows alone: those within attention heads, and what is between a module's operators.
SHOWN = {
    "mlp": {"h1", "h2", "y"},
    "siren": {"h1", "h2", "y"},
    "cnn": {"c1", "c2", "y"},
    "resnet": {"c1", "c2", "c3", "c4", "c5", "y"},
    "lstm": {"h1", "y"},
    "transformer": {"h1", "h5", "y"},
}


def _probes(name: str) -> ProbeFeatures:
    module, examples, spec = network(name)
    return ProbeFeatures(module, spec, examples, probes=5)


@pytest.mark.parametrize("name", NETWORKS)
def test_axes_that_show(name: str) -> None:
    probes = _probes(name)
    missing = SHOWN[name] - set(probes.sites)
    assert not missing, (missing, {axis: site.call for axis, site in probes.sites.items()})


@pytest.mark.parametrize("name", NETWORKS)
def test_output_is_that_of_the_module(name: str) -> None:
    """In evaluation mode: of the running statistics of batch normalisation."""
    module, _, spec = network(name)
    probes, weights = _probes(name), _positive(random_weights(spec, 2, dtype=torch.float32))
    site, found = probes.sites["y"], probes(weights)
    module.load_state_dict({k: v[1] for k, v in weights.items()}, strict=False)
    with torch.no_grad():
        output = module.eval()(*probes.learned_inputs())
    expected = output.movedim(site.dim, 0).flatten(2).mean(2) if output.dim() > 2 else output.T
    name_of_set = next(nodes.name for nodes in spec.topology.nodes if nodes.axes == ("y",))
    assert torch.allclose(found[name_of_set][1], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_encoders_read_them(name: str) -> None:
    spec, probes = network(name).spec, _probes(name)
    torch.manual_seed(0)
    encoder = NeuralGraphGNN(spec, channels=6, layers=1, frequencies=1, probes=probes).double()
    assert_moves_along(encoder)
    weights = random_weights(spec, 2)
    plain = encoder(weights)
    sum(part.square().sum() for part in plain.nodes.values()).backward()
    assert probes.inputs[0].grad is not None and probes.inputs[0].grad.abs().max() > 0
    with torch.no_grad():
        probes.inputs[0].add_(1.0)
    assert largest_difference(encoder(weights), plain) > 1e-6


def test_autocast_leaves_networks_alone() -> None:
    spec, probes = network("siren").spec, _probes("siren")
    weights = random_weights(spec, 2, dtype=torch.float32)
    exact = probes(weights)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = probes(weights)
    assert all(torch.equal(found[name], exact[name]) for name in exact)
    encoder = GraphMetanetwork(spec, channels=6, layers=1, probes=probes).to("meta")
    features = encoder({name: weight.to("meta") for name, weight in weights.items()})
    assert all(part.device.type == "meta" for part in features.nodes.values())


def _positive(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: w.abs() + 0.1 if "running_var" in name else w for name, w in weights.items()}
