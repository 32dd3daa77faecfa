"""Training sequences per CPU-second: stacked language models against a loop over single ones.

Both sides take equal steps of equal batches of 64 characters with Adam.
``python tests/benchmarks/bench_language_zoo.py`` prints the figures.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from wsl.zoo import ForwardDefinition
from wsl.zoo.language import CharRecurrents, CharTransformers, LanguageHyperparameters
from wsl.zoo.language._plan import LanguagePlan, stack_size
from wsl.zoo.language._train import network_text, train_networks

VOCABULARY, LENGTH, STEPS, ROUNDS = 103, 64, 4, 7
STACKED = "stacked"
ARCHITECTURES = {
    "RNN": CharRecurrents("rnn"),
    "GRU": CharRecurrents("gru"),
    "LSTM": CharRecurrents("lstm"),
    "LSTM of two layers": CharRecurrents("lstm", layers=2),
    "Transformer": CharTransformers(blocks=1),
    "Transformer of two blocks": CharTransformers(heads=4, blocks=2),
}


def plan(model: int, forward: ForwardDefinition, batch: int) -> LanguagePlan:
    drawn = LanguageHyperparameters(1e-3, 1e-4, 0.0, "adam", "default", 1.0, 1.0, batch, STEPS)
    return LanguagePlan(model, 0, forward, drawn, (STEPS,))


def train_one(sequences: Tensor, network: LanguagePlan, adam: str) -> None:
    """The usual loop around a module and torch's Adam."""
    module = network.forward.build().train()
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, weight_decay=1e-4, **{adam: True})
    text = network_text(network, len(sequences))
    for _ in range(STEPS):
        batch = sequences[torch.from_numpy(text.next_batch(network.hyperparameters.batch_size))]
        loss = F.cross_entropy(module(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def measure(name: str, batch: int) -> dict[str, float]:
    """Sequences per CPU-second of each way, the median of rounds in which the ways take turns."""
    torch.set_num_threads(1)
    architecture, generator = ARCHITECTURES[name], torch.Generator().manual_seed(0)
    forward = architecture.draw(VOCABULARY, LENGTH, np.random.default_rng(0))
    sequences = torch.randint(VOCABULARY, (1000, LENGTH + 1), generator=generator)
    stack, plans = architecture.stack(forward), [plan(i, forward, batch) for i in range(stack_size(batch))]
    ways: dict[str, tuple[int, Callable[[], object]]] = {
        STACKED: (len(plans), partial(train_networks, stack, plans, sequences))
    }
    for adam in ("foreach", "fused"):
        ways[f"loop, {adam} Adam"] = (1, partial(train_one, sequences, plans[0], adam))
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS + 1):
        for way, (count, run) in ways.items():
            begin = time.process_time()
            run()
            rates[way].append(count * batch * STEPS / (time.process_time() - begin))
    return {way: float(np.median(values[1:])) for way, values in rates.items()}


def report(name: str, batch: int, found: dict[str, float]) -> str:
    best = found[STACKED] / max(rate for way, rate in found.items() if way != STACKED)
    rates = ", ".join(f"{way} {rate:.0f}" for way, rate in found.items())
    return f"{name}, batches of {batch}: {rates} sequences/CPU-s; {best:.2f} x the fastest loop\n"


@pytest.mark.parametrize("batch", [8, 16])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_stacked_networks_against_the_loop(name: str, batch: int) -> None:
    found = measure(name, batch)
    sys.stdout.write("\n" + report(name, batch, found))
    assert min(found.values()) > 0


if __name__ == "__main__":
    for name in ARCHITECTURES:
        for batch in (8, 16):
            sys.stdout.write(report(name, batch, measure(name, batch)))
            sys.stdout.flush()
