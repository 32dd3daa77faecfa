"""Training images per CPU-second: stacked networks of the Small CNN Zoo against a loop over single ones.

Both sides take equal steps of equal batches with Adam; networks of 4,970 parameters on 28 x 28 images.
``python tests/benchmarks/bench_classifier_zoo.py`` prints the figures beside the target.
"""

import ctypes
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

from wsl.zoo import ForwardDefinition
from wsl.zoo.classifiers._data import LabelledImages
from wsl.zoo.classifiers._plan import NetworkPlan
from wsl.zoo.classifiers._recipe import Hyperparameters
from wsl.zoo.classifiers._small_cnn_stack import SmallCnnStack
from wsl.zoo.classifiers._train import network_images, train_networks

NETWORKS, LOOPED, BATCH, STEPS, ROUNDS = 8, 2, 64, 8, 5
TARGET = 2.2
FORWARD = ForwardDefinition(
    "wsl.models:SmallCNN",
    {
        "in_channels": 1,
        "channels": [16, 16, 16],
        "classes": 10,
        "activation": "relu",
        "kernel_size": 3,
        "stride": 2,
    },
)


def raise_malloc_thresholds() -> None:
    """Keep glibc from mapping large blocks anew for each operator, for both sides alike."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 2**30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, 2**30)  # M_TRIM_THRESHOLD


def images() -> LabelledImages:
    """As many random images of Fashion-MNIST's size as one network sees."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(BATCH * STEPS, 28, 28, 1, generator=generator) * 2 - 1
    return LabelledImages(pixels, torch.randint(10, (len(pixels),), generator=generator))


def plan(model: int, dropout: float) -> NetworkPlan:
    drawn = Hyperparameters(1e-3, 1e-4, dropout, "adam", "default", 1.0, 1.0, 0.0, BATCH, 1)
    return NetworkPlan(model, 0, FORWARD, drawn, (1,))


def train_one(data: LabelledImages, network: NetworkPlan, layout: torch.memory_format, fused: bool) -> None:
    """The usual loop around a module and torch's Adam."""
    module = FORWARD.build().train().to(memory_format=layout)
    module.dropout.p = network.hyperparameters.dropout
    adam = torch.optim.Adam(module.parameters(), lr=1e-3, weight_decay=1e-4, fused=fused)
    pixels = data.pixels.permute(0, 3, 1, 2).contiguous(memory_format=layout)
    seen = network_images(network, data.labels, 10)
    for _ in range(STEPS):
        rows, labels = map(torch.from_numpy, seen.next_batch(BATCH))
        loss = F.cross_entropy(module(pixels[rows]), labels)
        adam.zero_grad()
        loss.backward()
        adam.step()


def loop(data: LabelledImages, dropout: float, layout: torch.memory_format, fused: bool) -> None:
    for model in range(LOOPED):
        train_one(data, plan(model, dropout), layout, fused)


def stacked(data: LabelledImages, dropout: float) -> None:
    train_networks(SmallCnnStack(FORWARD), [plan(model, dropout) for model in range(NETWORKS)], data, 10)


def measure() -> dict[str, float]:
    """Images per CPU-second of each way, the median of rounds in which the ways take turns."""
    torch.set_num_threads(1)
    raise_malloc_thresholds()
    data = images()
    ways: dict[str, tuple[int, Callable[[], None]]] = {}
    for dropout in (0.0, 0.2):
        ways[f"loop, dropout {dropout}"] = (
            LOOPED,
            lambda dropout=dropout: loop(data, dropout, torch.contiguous_format, False),
        )
        ways[f"loop, channels last, fused Adam, dropout {dropout}"] = (
            LOOPED,
            lambda dropout=dropout: loop(data, dropout, torch.channels_last, True),
        )
        ways[f"stacked, dropout {dropout}"] = (NETWORKS, lambda dropout=dropout: stacked(data, dropout))
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS + 1):
        for name, (networks, run) in ways.items():
            begin = time.process_time()
            run()
            rates[name].append(networks * BATCH * STEPS / (time.process_time() - begin))
    return {name: float(np.median(values[1:])) for name, values in rates.items()}


def report(found: dict[str, float]) -> str:
    """A line for each way; stacked ones with their factor over the loop and the target."""
    lines = []
    for name, rate in found.items():
        line = f"{name:46} {rate:8.0f} images/CPU-s  {1e6 / rate:6.1f} us an image"
        if name.startswith("stacked"):
            factor = rate / found[name.replace("stacked", "loop")]
            line += f"   {factor:.2f} x the loop (target {TARGET})"
        lines.append(line + "\n")
    return "".join(lines)


def test_stacked_networks_train_faster_than_the_loop() -> None:
    found = measure()
    sys.stdout.write("\n" + report(found))
    assert min(found.values()) > 0


if __name__ == "__main__":
    sys.stdout.write(report(measure()))
