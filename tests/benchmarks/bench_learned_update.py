"""An update of the optimizer of 2402.05232, 64 lanes of a 64-32-10 MLP, against its own matrix products.

``each`` has parameters of each lane's own, ``vmap`` does the same by ``torch.func``.
``python tests/benchmarks/bench_learned_update.py`` prints the figures: CPU time, the least of each.
"""

import sys
from collections.abc import Callable

import pytest
import torch
from side_by_side import Figures, answer, measure_step, run_sides

import wsl
from wsl.learnopt import Optimizer, UNFOptimizer
from wsl.models import MLP

LANES, HIDDEN = 64, 32
SIDES = ["products", "update", "each", "vmap"]


def products(count: int) -> Callable[[int], float]:
    """Those of the MLP of every weight: 8 channels, as those that all weights share are mapped once."""
    widths = [(8, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, HIDDEN)]
    maps, lane = [torch.randn(*width) for width in widths], torch.randn(4, count, 8)

    def step(lanes: int) -> float:
        for _ in range(0, lanes, 4):
            hidden = lane
            for weight in maps:
                hidden = hidden @ weight
        return 0.0

    return step


def update(side: str, optimizer: UNFOptimizer) -> Callable[[int], float]:
    tensors = optimizer.spec.tensors
    params = {name: torch.randn(LANES, *tensor.shape) / 10 for name, tensor in tensors.items()}
    thetas = {
        name: value.detach().expand(LANES, *value.shape) for name, value in optimizer.named_parameters()
    }
    thetas = {name: value + 0.01 * torch.randn_like(value) for name, value in thetas.items()}
    zeros = torch.zeros(LANES, dtype=torch.int64)

    def step(lanes: int) -> float:
        given = {name: value[:lanes] for name, value in params.items()}
        rest = (given, optimizer.init(given), given, zeros[:lanes], zeros[:lanes].float())
        own = {name: value[:lanes] for name, value in thetas.items()}
        if side == "update":
            optimizer.update(*rest)
        elif side == "each":
            optimizer.update_each(own, *rest)
        else:
            Optimizer.update_each(optimizer, own, *rest)
        return 0.0

    return step


@torch.no_grad()
def measure(side: str) -> Figures:
    spec = wsl.trace(MLP(64, (HIDDEN,), 10), (torch.zeros(1, 64),))
    step = products(spec.parameter_count) if side == "products" else update(side, UNFOptimizer(spec))
    return measure_step(step, LANES)


def report() -> str:
    found = run_sides(__file__, SIDES, rounds=2)
    seconds = {side: figures["seconds"] for side, figures in found.items()}
    lines = [
        f"{side:<9} {1e3 * value:6.1f} CPU ms, {LANES / value:6.0f} lane steps a CPU-second, "
        f"{value / seconds['products']:.1f} x the products"
        for side, value in seconds.items()
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_an_update_against_its_products() -> None:
    sys.stdout.write("\n" + report())


if __name__ == "__main__" and not answer(measure):
    sys.stdout.write(report())
