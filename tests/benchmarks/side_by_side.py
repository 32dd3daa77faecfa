"""How benchmarks compare sides: each in a process of its own, in turn, and the best round of each counts.

Times are CPU time of one thread, so that other work on the machine distorts them little; compare ratios of
one run. All sides have the same raised thresholds of malloc: else glibc maps large blocks anew for every
operator. Memory is the growth of the peak resident set. Every figure is better when it is smaller.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode, addmm_flop, baddbmm_flop, sdpa_backward_flop, sdpa_flop

Figures = dict[str, float]

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
_MEGABYTE = 1 << 10  # in units of ru_maxrss
_aten = torch.ops.aten
_UNCOUNTED = {  # what FlopCounterMode does not know
    _aten.addmm_: addmm_flop,
    _aten.baddbmm_: baddbmm_flop,
    _aten._scaled_dot_product_flash_attention_for_cpu: sdpa_flop,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: sdpa_backward_flop,
}


class SideError(RuntimeError):
    """A side that fails."""


def run_sides(
    file: str,
    sides: Sequence[str],
    rounds: int,
    paths: Mapping[str, Sequence[Path]] | None = None,
    failures: dict[str, str] | None = None,
) -> dict[str, Figures]:
    """Run ``python file --side SIDE`` for every side, one after another, in every round.

    Args:
        file: the benchmark, which calls :func:`answer`.
        sides: what it gives to its function, separated by spaces.
        rounds: how often.
        paths: of some sides, folders to put on the Python path.
        failures: gets the last lines of the sides that fail, which are then left out.

    Returns:
        The least of each figure, by side.

    Raises:
        SideError: a side fails, and ``failures`` is not given.
    """
    best: dict[str, Figures] = {}
    for turn in range(rounds):
        for side in sides:
            if failures and side in failures:
                continue
            start = time.monotonic()
            try:
                result = _run(file, side, (paths or {}).get(side, ()))
            except SideError as error:
                if failures is None:
                    raise
                failures[side] = str(error)
                best.pop(side, None)
                continue
            previous = best.get(side, result)
            best[side] = {key: min(value, previous[key]) for key, value in result.items()}
            took, shown = time.monotonic() - start, f"{1e3 * result['seconds']:.0f} CPU ms"
            line = f"round {turn + 1} of {rounds}: {side}: {shown} ({took:.0f} s)"
            print(line, file=sys.stderr, flush=True)
    return best


def _run(file: str, side: str, paths: Sequence[Path]) -> Figures:
    known = filter(None, [os.environ.get("PYTHONPATH")])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *map(str, paths), *known]),
        **SETTINGS,
    }
    command = [sys.executable, file, "--side", *side.split()]
    output = subprocess.run(command, env=environment, capture_output=True, text=True)
    if output.returncode:
        said = "\n".join(output.stderr.splitlines()[-12:])
        raise SideError(f"{side} failed with code {output.returncode}:\n{said}")
    figures: Figures = json.loads(output.stdout.splitlines()[-1])
    return figures


def answer(measure: Callable[..., Figures]) -> bool:
    """If this process is one side, measure it on one thread and print its figures; whether it is.

    Raises:
        SideError: the process was not started by :func:`run_sides`; without its settings of malloc the same
            code can take twice as long, and would be compared with sides that have them.
    """
    if sys.argv[1:2] != ["--side"]:
        return False
    if any(os.environ.get(name) != value for name, value in SETTINGS.items()):
        raise SideError(f"a side runs with {SETTINGS} in its environment; let the benchmark start it.")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(json.dumps(measure(*sys.argv[2:])))
    return True


def measure_step(step: Callable[[int], float], rows: int, seconds: float = 1.0) -> Figures:
    """What one step of a batch takes.

    Args:
        step: does the work on the first so many rows of the batch, and returns a loss.
        rows: the whole batch.
        seconds: CPU time to spend on repetitions, at least one.

    Returns:
        ``seconds`` of the fastest step; ``memory`` in MB that the first step of the whole batch adds, after
        a step of two rows; ``loss``; and ``product_seconds``, see :func:`matrix_product_seconds`.
    """
    step(min(2, rows))
    before = peak_memory()
    loss = step(rows)
    memory = peak_memory() - before
    product, times = matrix_product_seconds(), []
    while not times or sum(times) < seconds:
        start = time.process_time()
        step(rows)
        times.append(time.process_time() - start)
    product = min(product, matrix_product_seconds())
    return {"seconds": min(times), "memory": memory, "loss": loss, "product_seconds": product}


def peak_memory() -> float:
    """The peak resident set of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MEGABYTE


PRODUCT = 1024
PRODUCT_FLOPS = 2 * PRODUCT**3


def matrix_product_seconds() -> float:
    """CPU seconds of a square matrix product, of which this core is capable: the fastest of several."""
    a, b, out = (torch.rand(PRODUCT, PRODUCT) for _ in range(3))
    times = []
    for _ in range(6):
        start = time.process_time()
        torch.mm(a, b, out=out)
        times.append(time.process_time() - start)
    return min(times)


def peak(figures: Figures) -> float:
    """Operations per second of that product, where and when ``figures`` were taken."""
    return PRODUCT_FLOPS / figures["product_seconds"]


def share_of_peak(flops: float, seconds: float, figures: Figures) -> float:
    """The speed of so many operations in so much time, in proportion to :func:`peak`."""
    return flops / seconds / peak(figures)


def count_flops(step: Callable[[int], float], rows: int) -> int:
    """Operations in the matrix products of a step of the whole batch, from steps of two and of three rows."""
    counts = []
    uncounted = {name: _of_shapes(formula) for name, formula in _UNCOUNTED.items()}
    for few in (2, 3):
        with FlopCounterMode(display=False, custom_mapping=uncounted) as counter:
            step(few)
        counts.append(counter.get_total_flops())
    return counts[0] + (rows - 2) * (counts[1] - counts[0])


def _of_shapes(formula: Callable[..., int]) -> Callable[..., int]:
    return lambda *shapes, **_: formula(*shapes)
