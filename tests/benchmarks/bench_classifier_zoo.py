"""Training images per CPU-second: stacked networks of the Small CNN Zoo against a loop over single ones.

Both sides take equal steps of equal batches with Adam; networks of 4,970 parameters on 28 x 28 images.
``python tests/benchmarks/bench_classifier_zoo.py`` prints the figures beside the target.
"""

import ctypes
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from wsl.zoo import ForwardDefinition
from wsl.zoo.classifiers._data import LabelledImages
from wsl.zoo.classifiers._plan import ClassifierPlan, stack_size
from wsl.zoo.classifiers._recipe import Hyperparameters
from wsl.zoo.classifiers._small_cnn_stack import SmallCnnStack
from wsl.zoo.classifiers._train import network_images, train_networks

LOOPED, STEPS, ROUNDS, TARGET = 1, 8, 7, 2.2
STACKED = "stacked"
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


def images(count: int) -> LabelledImages:
    """Random images of Fashion-MNIST's size."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(count, 28, 28, 1, generator=generator) * 2 - 1
    return LabelledImages(pixels, torch.randint(10, (count,), generator=generator))


def plan(model: int, batch: int, dropout: float) -> ClassifierPlan:
    drawn = Hyperparameters(1e-3, 1e-4, dropout, "adam", "default", 1.0, 1.0, batch, 0.0, 1)
    return ClassifierPlan(model, 0, FORWARD, drawn, (1,))


def train_one(data: LabelledImages, network: ClassifierPlan, layout: torch.memory_format, adam: str) -> None:
    """The usual loop around a module and torch's Adam."""
    drawn = network.hyperparameters
    module = FORWARD.build().train().to(memory_format=layout)
    module.dropout.p = drawn.dropout
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, weight_decay=1e-4, **{adam: True})
    pixels = data.pixels.permute(0, 3, 1, 2).contiguous(memory_format=layout)
    seen = network_images(network, data.labels, 10)
    for _ in range(STEPS):
        rows, labels = map(torch.from_numpy, seen.next_batch(drawn.batch_size))
        loss = F.cross_entropy(module(pixels[rows]), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def loop(data: LabelledImages, plans: list[ClassifierPlan], layout: torch.memory_format, adam: str) -> None:
    for network in plans:
        train_one(data, network, layout, adam)


def stacked(data: LabelledImages, plans: list[ClassifierPlan]) -> None:
    train_networks(SmallCnnStack(FORWARD), plans, data, 10)


def measure(batch: int, dropout: float) -> dict[str, float]:
    """Images per CPU-second of each way, the median of rounds in which the ways take turns."""
    torch.set_num_threads(1)
    raise_malloc_thresholds()
    data = images(batch * STEPS)
    networks = stack_size(batch)
    plans = [plan(model, batch, dropout) for model in range(networks)]
    ways: dict[str, tuple[int, Callable[[], None]]] = {STACKED: (networks, lambda: stacked(data, plans))}
    for layout in (torch.contiguous_format, torch.channels_last):
        for adam in ("foreach", "fused"):
            name = f"loop, {str(layout).removeprefix('torch.')}, {adam} Adam"
            ways[name] = (LOOPED, partial(loop, data, plans[:LOOPED], layout, adam))
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS + 1):
        for name, (count, run) in ways.items():
            begin = time.process_time()
            run()
            rates[name].append(count * batch * STEPS / (time.process_time() - begin))
    return {name: float(np.median(values[1:])) for name, values in rates.items()}


def report(found: dict[str, float]) -> str:
    """A line for each way; loops with the factor of the stack over them."""
    lines = []
    for name, rate in found.items():
        line = f"  {name:40} {rate:8.0f} images/CPU-s  {1e6 / rate:6.1f} us an image"
        lines.append(line + (f"   {found[STACKED] / rate:.2f} x\n" if name != STACKED else "\n"))
    best = found[STACKED] / max(rate for name, rate in found.items() if name != STACKED)
    return "".join(lines) + f"  stack over the fastest loop: {best:.2f} x (target {TARGET})\n"


@pytest.mark.parametrize("dropout", [0.0, 0.25])
@pytest.mark.parametrize("batch", [16, 32, 64, 128])
def test_stacked_networks_train_faster_than_the_loop(batch: int, dropout: float) -> None:
    found = measure(batch, dropout)
    sys.stdout.write(f"\nbatches of {batch}, dropout {dropout}\n" + report(found))
    assert min(found.values()) > 0


if __name__ == "__main__":
    for batch in (16, 32, 64, 128):
        for dropout in (0.0, 0.25):
            sys.stdout.write(f"batches of {batch}, dropout {dropout}\n" + report(measure(batch, dropout)))
