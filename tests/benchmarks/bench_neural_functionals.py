"""Neural functional networks against the package ``nfn``: CPU time and peak memory of forward + backward.

    pytest tests/benchmarks/bench_neural_functionals.py -m slow -s
    python tests/benchmarks/bench_neural_functionals.py            # the table alone

Batch 64, one thread, the layers of both at the same widths, then pooling and an MLP. Each side runs in a
process of its own, with the same raised thresholds of malloc; sides alternate, and the best round of each
counts. DWSNets have no package; their rows are ours alone. At 512 channels both sides are bound by the same
matrix products, so neither can be much faster.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
BATCH, ROUNDS = 64, 2
THRESHOLD = str(1 << 30)
CNN = [(16, 1, 3, 3), (16, 16, 3, 3), (16, 16, 3, 3), (10, 16)]
SIREN = [(32, 2), (32, 32), (1, 32)]
CASES = {  # shapes, class, channels, layers, frequencies, steps
    "SIREN DWSNet 5 x 32": (SIREN, "DWSNet", 32, 5, 0, 5),
    "SIREN NFN-HNP 3 x 32": (SIREN, "NFNHNP", 32, 3, 16, 5),
    "SIREN NFN-NP 3 x 32": (SIREN, "NFNNP", 32, 3, 16, 5),
    "SIREN NFN-HNP 3 x 512 (paper)": (SIREN, "NFNHNP", 512, 3, 256, 1),
    "SIREN NFN-NP 3 x 512 (paper)": (SIREN, "NFNNP", 512, 3, 256, 1),
    "CNN DWSNet 5 x 32": (CNN, "DWSNet", 32, 5, 0, 2),
    "CNN NFN-HNP 3 x 16 (paper)": (CNN, "NFNHNP", 16, 3, 0, 5),
    "CNN NFN-NP 3 x 16 (paper)": (CNN, "NFNNP", 16, 3, 0, 5),
}


def our_step(case: str):
    import torch
    from torch import nn

    from wsl import encoders
    from wsl.nn import InvariantHead
    from wsl.spec import WeightSpec
    from wsl.testing import random_weights

    shapes, kind, channels, layers, frequencies, _ = CASES[case]
    names = ["x", *(f"h{i}" for i in range(1, len(shapes))), "y"]
    sizes = [shapes[0][1], *(shape[0] for shape in shapes)]
    kinds = ["input", *["hidden"] * (len(shapes) - 1), "output"]
    axes = "  ".join(f"{name}: {size} {kind}" for name, size, kind in zip(names, sizes, kinds, strict=True))
    lines = []
    for i, shape in enumerate(shapes):
        kernel = " _ _   _=3x3" if len(shape) > 2 else ""
        lines += [f"{i}.weight {names[i + 1]} {names[i]}{kernel}", f"{i}.bias {names[i + 1]}"]
    spec = WeightSpec.parse("\n".join([f"axes {axes}", *lines]))
    extra = {} if kind == "DWSNet" else {"frequencies": frequencies}
    encoder = getattr(encoders, kind)(spec, channels, layers, **extra)
    model = nn.Sequential(encoder, InvariantHead(spec, channels, 10))
    weights = random_weights(spec, BATCH, torch.Generator().manual_seed(0), torch.float32)
    return model, weights


def their_step(case: str):
    import torch
    from nfn.common import ArraySpec, NetworkSpec, WeightSpaceFeatures
    from nfn.layers import (
        GaussianFourierFeatureTransform,
        HNPLinear,
        HNPPool,
        IOSinusoidalEncoding,
        NPLinear,
        NPPool,
        TupleOp,
    )
    from torch import nn

    shapes, kind, channels, layers, frequencies, _ = CASES[case]
    layer, pool = (HNPLinear, HNPPool) if kind == "NFNHNP" else (NPLinear, NPPool)
    network = NetworkSpec([ArraySpec(s) for s in shapes], [ArraySpec(s[:1]) for s in shapes])
    stack, width = [], 1
    if frequencies:
        stack.append(GaussianFourierFeatureTransform(network, 1, frequencies))
        width = 2 * frequencies
    if kind == "NFNNP" and len(shapes[0]) == 2:  # its experiments on CNNs have none
        stack.append(IOSinusoidalEncoding(network))
        width = stack[-1].num_out_chan(width)
    for _ in range(layers):
        stack += [layer(network, width, channels), TupleOp(nn.ReLU())]
        width = channels
    pooled = channels * pool.get_num_outs(network)
    head = [nn.Flatten(-2), nn.Linear(pooled, 2 * channels), nn.ReLU(), nn.Linear(2 * channels, 10)]
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(BATCH, 1, *s, generator=generator) for s in shapes]
    biases = [torch.randn(BATCH, 1, s[0], generator=generator) for s in shapes]
    return nn.Sequential(*stack, pool(network), *head), WeightSpaceFeatures(weights, biases)


def measure(side: str, case: str) -> dict[str, float]:
    """CPU seconds of one step and MB of memory, in this process."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model, weights = (our_step if side == "wsl" else their_step)(case)

    def step() -> None:
        model.zero_grad()
        model(weights).square().mean().backward()

    step()
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    times = []
    for _ in range(CASES[case][-1]):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return {"seconds": min(times), "memory": memory}


def run(case: str) -> dict[str, dict[str, float]]:
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
        for side in ("wsl", "nfn") if "NFN" in case else ("wsl",):
            command = [sys.executable, __file__, side, case]
            output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            result = json.loads(output.stdout)
            best[side] = {key: min(result[key], best.get(side, result)[key]) for key in result}
    return best


def report() -> Iterator[str]:
    """The table, line by line."""
    widths = (18, 7, 9, 7)
    heads = ("networks / CPU-s", "nfn", "peak MB", "nfn")
    yield f"{'':32}" + "".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True))
    for case in CASES:
        best = run(case)
        sides = [best.get(side) for side in ("wsl", "nfn")]
        cells = [
            *(f"{BATCH / side['seconds']:.0f}" if side else "" for side in sides),
            *(f"{side['memory']:.0f}" if side else "" for side in sides),
        ]
        yield f"{case:32}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def test_report() -> None:
    print()
    for line in report():
        print(line)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(*sys.argv[1:])))
    else:
        for line in report():
            print(line, flush=True)
