"""Dense message passing against its sparse twin: CPU time and peak memory of forward + backward.

    pytest tests/benchmarks/bench_message_passing.py -m slow -s
    python tests/benchmarks/bench_message_passing.py            # the table alone

Batch 64 of 2-32-32-1 SIRENs, 64 channels, 4 layers, the same parameters, one thread. Each side runs in a
process of its own, with the same raised thresholds of malloc (else glibc maps large blocks anew for every
operator); sides alternate, and the best round of each counts. Memory is the growth of the peak resident set
in the first step of the whole batch, after a step of two networks.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SIDES = ("dense", "sparse")
ROUNDS = 3
STEPS = 4
BATCH = 64
THRESHOLD = str(1 << 30)


def measure(side: str) -> dict[str, float]:
    """CPU seconds of one step and MB of memory, of one side, in this process."""
    import torch

    from wsl.encoders import GraphMetanetwork
    from wsl.spec import WeightSpec
    from wsl.testing import random_weights

    torch.set_num_threads(1)
    spec = WeightSpec.parse(
        "axes h1: 32 hidden sin  h2: 32 hidden sin  x: 2 input  y: 1 output\n"
        "layers.0.weight h1 x\nlayers.0.bias h1\nlayers.1.weight h2 h1\nlayers.1.bias h2\n"
        "layers.2.weight y h2\nlayers.2.bias y"
    )
    torch.manual_seed(0)
    encoder = GraphMetanetwork(spec, channels=64, layers=4)
    run = encoder if side == "dense" else encoder.sparse()
    weights = random_weights(spec, BATCH, torch.Generator().manual_seed(0), torch.float32)

    def step() -> float:
        encoder.zero_grad()
        nodes = run(weights).nodes
        loss = sum(value.square().mean() for value in nodes.values())
        loss.backward()
        return loss.item()

    whole, weights = weights, {name: tensor[:2] for name, tensor in weights.items()}
    step()
    weights = whole
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loss = step()
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    times = []
    for _ in range(STEPS):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return {"seconds": min(times), "memory": memory, "loss": loss}


def run_sides() -> dict[str, dict[str, float]]:
    """The best round of each side."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "OMP_NUM_THREADS": "1",
        "MALLOC_MMAP_THRESHOLD_": THRESHOLD,
        "MALLOC_TRIM_THRESHOLD_": THRESHOLD,
    }
    best: dict[str, dict[str, float]] = {}
    for _ in range(ROUNDS):
        for side in SIDES:
            command = [sys.executable, __file__, side]
            output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            result = json.loads(output.stdout)
            previous = best.get(side, result)
            best[side] = {key: min(result[key], previous[key]) for key in result}
    return best


def report(best: dict[str, dict[str, float]]) -> str:
    """The table."""
    lines = [f"{'':8}{'CPU ms':>9}{'networks / CPU-s':>19}{'peak MB':>9}"]
    for side, result in best.items():
        lines.append(
            f"{side:8}{1e3 * result['seconds']:9.0f}{BATCH / result['seconds']:19.0f}{result['memory']:9.0f}"
        )
    dense, sparse = best["dense"], best["sparse"]
    speed, memory = sparse["seconds"] / dense["seconds"], dense["memory"] / sparse["memory"]
    lines.append(
        f"dense is {speed:.2f} times as fast (target 2.5), with {memory:.0%} of the memory (target 40%)"
    )
    return "\n".join(lines)


def test_dense_equals_sparse() -> None:
    best = run_sides()
    print("\n" + report(best))
    assert abs(best["dense"]["loss"] - best["sparse"]["loss"]) < 1e-5


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
    else:
        print(report(run_sides()))
