"""Inner steps per CPU-second: 64 lanes that advance together against one lane at a time.

Both sides run :func:`wsl.learnopt.advance` on a classifier of 8x8 images. ``plain loop`` is what one would
write around one module and an optimizer of torch's kind.
``python tests/benchmarks/bench_learnopt_lanes.py`` prints the figures.
"""

import sys
import time
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from wsl.learnopt import (
    Adam,
    DeepSetsOptimizer,
    MlpImages,
    Optimizer,
    Task,
    TorchOptimizer,
    UNFOptimizer,
    advance,
    start,
)

LANES, ROUNDS = 64, 7
OPTIMIZERS: dict[str, Callable[[Task], Optimizer]] = {
    "Adam": lambda task: Adam(1e-3),
    "DeepSets": lambda task: DeepSetsOptimizer(task.spec),
    "UNF": lambda task: UNFOptimizer(task.spec),
}


def run(task: Task, optimizer: Optimizer, lanes: int, steps: int) -> Callable[[], int]:
    """Advances so many lanes and says how many inner steps that were."""
    here = start(task, optimizer, torch.arange(lanes), 10**6)

    def work() -> int:
        with torch.no_grad():
            advance(task, optimizer, here, steps)
        return lanes * steps

    return work


def plain(task: MlpImages, optimizer: Optimizer, steps: int) -> Callable[[], int]:
    """The usual loop around one module, with torch's Adam or the optimizer in torch's clothes."""
    module, seeds = task.module, torch.zeros(1, dtype=torch.int64)
    rule: torch.optim.Optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, fused=True)
    if not isinstance(optimizer, Adam):
        rule = TorchOptimizer(optimizer, module, task.example_inputs)

    def work() -> int:
        for step in range(steps):
            images, labels = task.batch(seeds, torch.tensor([step]))
            loss = F.cross_entropy(module(images[0]), labels[0])
            rule.zero_grad()
            loss.backward()
            rule.step()
        return steps

    return work


def measure(name: str, hidden: tuple[int, ...] = (32,), batch_size: int = 128) -> dict[str, float]:
    """Inner steps per CPU-second of each side, the median of rounds in which the sides take turns."""
    torch.set_num_threads(1)
    task = MlpImages(hidden=hidden, batch_size=batch_size)
    optimizer = OPTIMIZERS[name](task)
    sides = {
        f"{LANES} lanes": run(task, optimizer, LANES, 10),
        "one lane": run(task, optimizer, 1, 20),
        "plain loop": plain(task, optimizer, 20),
    }
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(ROUNDS + 1):
        for side, work in sides.items():
            begin = time.process_time()
            count = work()
            rates[side].append(count / (time.process_time() - begin))
    return {side: float(torch.tensor(values[1:]).median()) for side, values in rates.items()}


def report(name: str, hidden: tuple[int, ...], batch_size: int, found: dict[str, float]) -> str:
    ratio = found[f"{LANES} lanes"] / found["one lane"]
    rates = ", ".join(f"{side} {rate:.0f}" for side, rate in found.items())
    return f"{name}, hidden {list(hidden)}, batches of {batch_size}: {rates} steps/CPU-s; {ratio:.1f} x\n"


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_lanes_together_against_one_at_a_time(name: str) -> None:
    found = measure(name)
    sys.stdout.write("\n" + report(name, (32,), 128, found))
    assert min(found.values()) > 0


if __name__ == "__main__":
    for name in OPTIMIZERS:
        for hidden, batch_size in (((32,), 128), ((32, 32), 128), ((32,), 32)):
            sys.stdout.write(report(name, hidden, batch_size, measure(name, hidden, batch_size)))
            sys.stdout.flush()
