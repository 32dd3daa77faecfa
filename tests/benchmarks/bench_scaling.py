"""Time and memory of every encoder on one network of ten thousand to ten million weights.

    python tests/benchmarks/bench_scaling.py --networks mlp --sizes 1e4 1e5 1e6      # a few minutes
    python tests/benchmarks/bench_scaling.py --networks resnet --families NFT ScaleGMN --out table.md
    pytest tests/benchmarks/bench_scaling.py -m slow

Forward and backward of an encoder with two layers of 8 channels and of an invariant head, for a batch of one;
CPU seconds of one thread, and the growth of the peak resident set from before the encoder is built. The MLP
has three hidden layers, the ResNet is ResNet-18; both grow in width, so slopes on log axes, over the last two
sizes, are 1 where costs are linear in the number of weights. Encoders that can compute what they need for the
gradient again (``checkpoint``) are measured with and without. A family stops where a step would take more
time or memory than ``--seconds`` and ``--gigabytes`` allow, by its last slope, or does take more memory.
"""

import argparse
import inspect
import math
import resource
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import side_by_side
import torch
from side_by_side import Figures
from torch import Tensor, nn

import wsl
from wsl import encoders
from wsl.models import ResNet18
from wsl.nn import GeneratedProbes, InvariantHead
from wsl.testing import random_weights

SIZES, SECONDS, GIGABYTES = (1e4, 1e5, 1e6, 1e7), 60.0, 8.0
CHANNELS, LAYERS, FREQUENCIES, PROBES = 8, 2, 2, 16
FAMILIES: dict[str, dict[str, Any]] = {
    "GraphMetanetwork": {},
    "FastGraphMetanetwork": {},
    "NeuralGraphGNN": {},
    "NeuralGraphTransformer": {"edge_channels": CHANNELS, "heads": 4},
    "ScaleGMN": {},
    "ScaleGMNBidirectional": {},
    "DWSNet": {},
    "NFNHNP": {},
    "NFNNP": {},
    "NFT": {},
    "UniversalNeuralFunctional": {},
    "FlatMLP": {"hidden": CHANNELS},
    "StatNet": {"hidden": CHANNELS},
    "DeepSets": {},
    "SetTransformer": {},
    "Transformer": {},
    "ProbeGen": {"hidden": CHANNELS},
}


def make_mlp(size: float) -> tuple[nn.Module, Tensor]:
    """A ReLU MLP with three hidden layers and about so many weights, and inputs for it."""
    width = round((math.sqrt(29**2 + 8 * size) - 29) / 4)  # 2 n^2 + 29 n weights and biases
    sizes = [16, width, width, width, 10]
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1]), torch.rand(4, 16)


def make_resnet(size: float) -> tuple[nn.Module, Tensor]:
    """A ResNet-18 with about so many weights, and inputs for it."""
    return ResNet18(width=max(1, round(math.sqrt(size / 2728)))), torch.rand(4, 3, 16, 16)


NETWORKS = {"mlp": make_mlp, "resnet": make_resnet}


def build(network: str, family: str, size: float, checkpoint: bool) -> encoders.Encoder:
    """An encoder for a network of about ``size`` weights."""
    with torch.device("meta"):
        module, inputs = NETWORKS[network](size)
    spec = wsl.trace(module, inputs)
    encoder = getattr(encoders, family)
    accepted = inspect.signature(encoder).parameters
    options = dict(FAMILIES[family])
    if "frequencies" in accepted:
        options["frequencies"] = FREQUENCIES
    if checkpoint:
        options["checkpoint"] = True
    if family == "ProbeGen":
        module, inputs = NETWORKS[network](size)
        options["probes"] = GeneratedProbes(module, spec, inputs, PROBES)
    made: encoders.Encoder = encoder(spec, channels=CHANNELS, layers=LAYERS, **options)
    return made


def can_checkpoint(family: str) -> bool:
    """Whether the family has the option."""
    return "checkpoint" in inspect.signature(getattr(encoders, family)).parameters


def make_step(
    network: str, family: str, size: float, checkpoint: bool
) -> tuple[encoders.Encoder, Callable[[], None]]:
    """An encoder, and forward and backward of it and a head."""
    encoder = build(network, family, size, checkpoint)
    head = InvariantHead(encoder.spec, CHANNELS, 10)
    weights = random_weights(encoder.spec, 1, torch.Generator().manual_seed(0), torch.float32)
    weights = {name: tensor / math.sqrt(max(1, tensor[0].numel())) for name, tensor in weights.items()}

    def step() -> None:
        head(encoder(weights)).square().mean().backward()

    return encoder, step


def measure(network: str, family: str, size: str, checkpoint: str, gigabytes: str) -> Figures:
    """One family on one network, in this process."""
    limit = int(float(gigabytes) * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    step = make_step(network, family, 1e3, checkpoint == "checkpoint")[1]
    step()  # what torch loads at its first step is no cost of the network
    before = side_by_side.peak_memory()
    encoder, step = make_step(network, family, float(size), checkpoint == "checkpoint")
    times: list[float] = []
    while not times or sum(times) < 0.5:
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
        if len(times) == 1:
            memory = side_by_side.peak_memory() - before
    return {
        "seconds": min(times),
        "memory": memory,
        "weights": encoder.spec.parameter_count,
        "parameters": sum(p.numel() for p in encoder.parameters() if p.requires_grad),
    }


def run_family(
    network: str, family: str, kind: str, sizes: Sequence[float], seconds: float, gigabytes: float
) -> tuple[list[Figures], str]:
    """Figures for ascending sizes, as far as the limits allow, and why there are no more."""
    done: list[Figures] = []
    for size in sizes:
        if done:
            predicted = {key: predict(done, size, key) for key in ("seconds", "memory")}
            if predicted["seconds"] > seconds:
                return done, f"about {predicted['seconds']:,.0f} s at {size:,.0f} weights"
            if predicted["memory"] > 1024 * gigabytes:
                return done, f"about {predicted['memory'] / 1024:,.0f} GB at {size:,.0f} weights"
        side = f"{network} {family} {size:.0f} {kind} {gigabytes}"
        try:
            done.append(side_by_side.run_sides(__file__, [side], 1)[side])
        except side_by_side.SideError as error:
            if "allocate memory" in str(error):
                return done, f"more than {gigabytes:.0f} GB at {size:,.0f} weights"
            return done, next(line for line in reversed(str(error).splitlines()) if "Error" in line)
    return done, ""


def slope(done: Sequence[Figures], key: str) -> float:
    """Over the last two sizes, on log axes."""
    before, last = done[-2:]
    growth = max(last[key], 1e-6) / max(before[key], 1e-6)  # a small step may add no memory
    return math.log(growth) / math.log(last["weights"] / before["weights"])


def predict(done: Sequence[Figures], size: float, key: str) -> float:
    """What the next size will take, at the last slope; at least at half of a linear one."""
    rate = max(0.5, slope(done, key)) if len(done) > 1 else 0.5
    return done[-1][key] * (size / done[-1]["weights"]) ** rate


def report(
    network: str, families: Sequence[str], sizes: Sequence[float], seconds: float, gigabytes: float
) -> str:
    """The table of one network, in Markdown."""
    heads = [f"{size:,.0f}: s, MB" for size in sizes]
    lines = [
        f"| {network} | " + " | ".join(heads) + " | slope of time | of memory | parameters | stopped |",
        "| --- |" + " ---: |" * (len(sizes) + 3) + " --- |",
    ]
    for family in families:
        for kind in ("plain", "checkpoint") if can_checkpoint(family) else ("plain",):
            done, reason = run_family(network, family, kind, sizes, seconds, gigabytes)
            cells = [f"{figures['seconds']:.3g}, {figures['memory']:,.0f}" for figures in done]
            cells += [""] * (len(sizes) - len(done))
            slopes = ["", ""]
            if len(done) > 1:
                slopes = [f"{slope(done, key):.2f}" for key in ("seconds", "memory")]
            parameters = f"{done[-1]['parameters']:,.0f}" if done else ""
            name = family if kind == "plain" else f"{family}, checkpoint"
            lines.append(f"| {name} | " + " | ".join([*cells, *slopes, parameters, reason]) + " |")
    return "\n".join(lines)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("family", [family for family in FAMILIES if can_checkpoint(family)])
def test_checkpoint_changes_no_value(network: str, family: str) -> None:
    grads = []
    for checkpoint in (False, True):
        torch.manual_seed(0)
        encoder = build(network, family, 2e4, checkpoint)
        weights = random_weights(encoder.spec, 1, torch.Generator().manual_seed(0), torch.float32)
        features = encoder(weights)
        sum(value.square().mean() for value in features.nodes.values()).backward()
        grads.append({name: p.grad for name, p in encoder.named_parameters() if p.grad is not None})
    assert grads[0].keys() == grads[1].keys() and grads[0]
    for name, grad in grads[0].items():
        torch.testing.assert_close(grads[1][name], grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("network", "size"), [("mlp", 1e4), ("mlp", 1e7), ("resnet", 1e5), ("resnet", 1e7)])
def test_networks_have_about_the_size(network: str, size: float) -> None:
    with torch.device("meta"):
        module, _ = NETWORKS[network](size)
    assert sum(p.numel() for p in module.parameters()) == pytest.approx(size, rel=0.1)


def test_limits_stop_a_family() -> None:
    done, reason = run_family("mlp", "GraphMetanetwork", "plain", [1e4, 1e6], 1e-6, 8.0)
    assert len(done) == 1 and reason.endswith("1,000,000 weights")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--sizes", nargs="+", type=float, default=list(SIZES))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--gigabytes", type=float, default=GIGABYTES)
    parser.add_argument("--out", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    limits = (arguments.seconds, arguments.gigabytes)
    sizes = sorted(arguments.sizes)
    tables = [report(network, arguments.families, sizes, *limits) for network in arguments.networks]
    print("\n\n".join(tables))
    if arguments.out:
        arguments.out.write_text("\n\n".join(tables) + "\n")


if __name__ == "__main__":
    if not side_by_side.answer(measure):
        main()
