"""What starting costs: ``import wsl`` against ``import torch``, and tracing a network against running it.

``python tests/benchmarks/bench_start.py`` prints the figures (target: ``import wsl`` costs less than torch).
"""

import subprocess
import sys
import time

import torch

import wsl
from wsl.models import Siren

ROUNDS = 5
IMPORTS = """
import time
start = time.process_time(); import torch, numpy; middle = time.process_time(); import wsl
print(middle - start, time.process_time() - middle)
"""


def import_seconds() -> tuple[float, float]:
    """Least CPU seconds of torch, and of wsl after it, each in fresh interpreters."""
    command = [sys.executable, "-c", IMPORTS]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(ROUNDS)]
    first, second = zip(*(map(float, run.stdout.split()) for run in runs), strict=True)
    return min(first), min(second)


def trace_milliseconds() -> tuple[float, float]:
    """Least CPU milliseconds of running a SIREN 2-32-32-1, and of tracing it."""
    module, inputs = Siren(2, (32, 32), 1), torch.rand(4, 2)
    least = []
    for step in (lambda: module(inputs), lambda: wsl.trace(module, inputs)):
        seconds = []
        for _ in range(10 * ROUNDS):
            start = time.process_time()
            step()
            seconds.append(time.process_time() - start)
        least.append(1e3 * min(seconds))
    return least[0], least[1]


def report() -> str:
    """Both comparisons."""
    torch_seconds, wsl_seconds = import_seconds()
    run, traced = trace_milliseconds()
    return (
        f"import torch {torch_seconds:.2f} s, import wsl after it {wsl_seconds:.2f} s\n"
        f"SIREN 2-32-32-1: run {run:.2f} ms, trace {traced:.2f} ms\n"
    )


def test_figures_can_be_taken() -> None:
    figures = report()
    sys.stdout.write("\n" + figures)
    assert "import wsl after it" in figures


if __name__ == "__main__":
    sys.stdout.write(report())
