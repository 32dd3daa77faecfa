"""Dense message passing against its sparse twin: CPU time, peak memory, and the speed of its matrix products.

    pytest tests/benchmarks/bench_message_passing.py -m slow -s
    python tests/benchmarks/bench_message_passing.py            # the table alone

Forward and backward of batch 64 of 2-32-32-1 SIRENs, 64 channels, 4 layers, the same parameters, one thread;
figures are those of :mod:`side_by_side`. The products of edges, ``e W`` and its two gradients, are timed one
by one inside of steps: their share of the peak is operations over time, against a product of two 1024 x 1024
matrices in the same process. Of the operations of a step, and of its time, they have the parts shown below.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import side_by_side
import torch
from side_by_side import Figures
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from wsl.encoders import GraphMetanetwork
from wsl.spec import WeightSpec
from wsl.testing import random_weights

SIDES = ("dense", "sparse")
ROUNDS, BATCH, CHANNELS, LAYERS = 3, 64, 64, 4
SIREN = (
    "axes h1: 32 hidden sin  h2: 32 hidden sin  x: 2 input  y: 1 output\n"
    "layers.0.weight h1 x\nlayers.0.bias h1\nlayers.1.weight h2 h1\nlayers.1.bias h2\n"
    "layers.2.weight y h2\nlayers.2.bias y"
)
EDGES = 2 * 32 + 32 * 32 + 32
EDGE_FLOPS = LAYERS * 3 * 2 * EDGES * CHANNELS**2  # of one network: the product and its two gradients


class EdgeProducts(TorchDispatchMode):
    """CPU time and operations of the matrix products of edges, which alone write into given memory."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds, self.flops = 0.0, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in (torch.ops.aten.mm.out, torch.ops.aten.addmm_.default):
            return func(*args, **kwargs)
        start = time.process_time()
        result = func(*args, **kwargs)
        self.seconds += time.process_time() - start
        left, right = args[-2:]
        self.flops += 2 * left.shape[0] * left.shape[1] * right.shape[1]
        return result


def build(side: str) -> tuple[nn.Module, nn.Module, dict[str, Tensor]]:
    """The encoder, the form of it that runs, and the weights of a batch."""
    spec = WeightSpec.parse(SIREN)
    torch.manual_seed(0)
    encoder = GraphMetanetwork(spec, channels=CHANNELS, layers=LAYERS)
    run = encoder if side == "dense" else encoder.sparse()
    return encoder, run, random_weights(spec, BATCH, torch.Generator().manual_seed(0), torch.float32)


def measure(side: str) -> Figures:
    """One side, in this process."""
    encoder, run, weights = build(side)

    def step(rows: int) -> float:
        encoder.zero_grad()
        nodes = run({name: tensor[:rows] for name, tensor in weights.items()}).nodes
        loss = sum(value.square().mean() for value in nodes.values())
        loss.backward()
        return loss.item()

    figures = side_by_side.measure_step(step, BATCH)
    figures["flops"] = side_by_side.count_flops(step, BATCH)
    if side == "dense":
        timed = []
        for _ in range(3):
            with EdgeProducts() as products:
                step(BATCH)
            timed.append(products.seconds)
        figures |= {"edge_seconds": min(timed), "edge_flops": products.flops}
    return figures


def report(best: dict[str, Figures]) -> str:
    """The table."""
    lines = [f"{'':8}{'CPU ms':>9}{'networks / CPU-s':>19}{'peak MB':>9}{'of the peak':>13}"]
    for side, result in best.items():
        share = side_by_side.share_of_peak(result["flops"], result["seconds"], result)
        speed = BATCH / result["seconds"]
        lines.append(
            f"{side:8}{1e3 * result['seconds']:9.0f}{speed:19.0f}{result['memory']:9.0f}{share:13.0%}"
        )
    dense, sparse = best["dense"], best["sparse"]
    speed, memory = sparse["seconds"] / dense["seconds"], dense["memory"] / sparse["memory"]
    share = side_by_side.share_of_peak(dense["edge_flops"], dense["edge_seconds"], dense)
    peak = side_by_side.peak(dense) / 1e9
    lines += [
        f"dense is {speed:.2f} times as fast (target 2.5), with {memory:.0%} of the memory (target 40%)",
        f"products of edges: {share:.0%} of the peak of {peak:.0f} GF/s (target 50%); "
        f"{dense['edge_flops'] / dense['flops']:.0%} of the operations of a step, "
        f"{dense['edge_seconds'] / dense['seconds']:.0%} of its time",
    ]
    return "\n".join(lines)


def test_dense_equals_sparse() -> None:
    best = side_by_side.run_sides(__file__, SIDES, 1)
    print("\n" + report(best))
    assert best["dense"]["loss"] == pytest.approx(best["sparse"]["loss"], abs=1e-5)
    assert best["dense"]["edge_flops"] == BATCH * EDGE_FLOPS


if __name__ == "__main__":
    if not side_by_side.answer(measure):
        print(report(side_by_side.run_sides(__file__, SIDES, ROUNDS)))
