"""INR fits per CPU-second: stacked networks against one at a time, side by side in one run.

Networks 2-32-32-1 on 28x28 images. ``python tests/benchmarks/bench_inr_fit.py`` prints the figures beside the
targets; ``pytest -m slow -s tests/benchmarks/bench_inr_fit.py`` also checks that the fits are good.
"""

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import yaml
from jsonargparse import ArgumentParser
from torch import Tensor

from wsl.models import Siren, coordinate_grid
from wsl.zoo import ZooError
from wsl.zoo.images import DigitsImages
from wsl.zoo.inr import FitRecipe, SirenConfig, build_inr_zoo
from wsl.zoo.inr._fit import fit_networks
from wsl.zoo.inr._points import PHASES, phase_axes, phase_targets, phase_values, psnr

CONFIG = Path(__file__).parents[2] / "configs" / "zoo" / "fashion_mnist_inr.yaml"
IMAGES, LOOPED, ROUNDS = 40, 10, 3
SHAPE = (28, 28)
TARGETS = {"default recipe": 10.0, "fastest recipe to 40 dB": 20.0, "equal steps": 3.0}
# The customary recipe: standard SIREN, Adam 5e-4, as long as it takes to 40 dB.
CUSTOMARY = SirenConfig(hidden=(32, 32), w0=30.0, initial_scale=1.0, initial_bias_scale=1.0)
FASTEST = FitRecipe(steps=40, learning_rate=1e-2, betas=(0.7, 0.7), half_pixel_phases=False)
EQUAL_STEPS = FitRecipe(steps=60, learning_rate=5e-4, betas=(0.9, 0.999), half_pixel_phases=False)


def raise_malloc_thresholds() -> None:
    """Keep glibc from mapping large blocks anew for each operator, for both sides alike."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 2**30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, 2**30)  # M_TRIM_THRESHOLD


def default_recipe() -> tuple[SirenConfig, FitRecipe, Tensor]:
    """Architecture and recipe of the Fashion-MNIST configuration, and images (enlarged digits without it)."""
    parser = ArgumentParser()
    parser.add_function_arguments(build_inr_zoo, skip={"out"})
    arguments = parser.instantiate(parser.parse_object(yaml.safe_load(CONFIG.read_text())))
    try:
        images = arguments.source.load().signals(range(IMAGES))
    except ZooError:
        digits = DigitsImages().load().signals(range(IMAGES))
        images = torch.nn.functional.interpolate(digits, SHAPE, mode="bicubic").clamp(0, 1)
    return arguments.architecture, arguments.recipe, images - arguments.architecture.output_offset


def fit_one(image: Tensor, seed: int, steps: int, target: float | None) -> tuple[int, float]:
    """The usual loop around a module and torch's Adam; stops at ``target`` dB. Steps taken and dB reached."""
    points, wanted = coordinate_grid(SHAPE), image.reshape(-1, 1)
    net = Siren(2, CUSTOMARY.hidden, 1, CUSTOMARY.w0, generator=torch.Generator().manual_seed(seed))
    adam = torch.optim.Adam(net.parameters(), lr=5e-4)
    for step in range(steps):
        loss = (net(points) - wanted).square().mean()
        if target is not None and psnr(loss.detach()) >= target:
            return step, float(psnr(loss.detach()))
        adam.zero_grad()
        loss.backward()
        adam.step()
    return steps, float(psnr(loss.detach()))


def fit_stacked(architecture: SirenConfig, recipe: FitRecipe, images: Tensor) -> dict[str, float]:
    """Fit all images at once, from drawing the initial weights on; median dB on and between the pixels."""
    stack, initial = architecture.stack(2, 1), architecture.initial_rows(range(len(images)), 2, 1)
    targets = phase_targets(images, PHASES if recipe.half_pixel_phases else PHASES[:1])
    rows = fit_networks(stack, initial, targets, recipe).rows
    found = {}
    for name, phase in (("dB", (0, 0)), ("dB between pixels", (1, 1))):
        outputs = stack.outputs(rows, phase_axes(SHAPE, phase))
        found[name] = float(psnr((outputs - phase_values(images, phase)).square().mean((1, 2))).median())
    return found


def cpu_seconds(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def measure() -> dict[str, dict[str, float]]:
    """Fits per CPU-second of each way, the median of rounds in which the ways take turns."""
    torch.set_num_threads(1)
    raise_malloc_thresholds()
    architecture, recipe, images = default_recipe()
    found: dict[str, dict[str, float]] = {}

    def loop_to_target() -> None:
        results = [fit_one(images[i], i, 2000, 40.0) for i in range(LOOPED)]
        found["loop, customary recipe"] = {
            "steps": sum(steps for steps, _ in results) / LOOPED,
            "dB": min(quality for _, quality in results),
        }

    def stacked(name: str, architecture: SirenConfig, recipe: FitRecipe) -> None:
        found[name] = {"steps": recipe.steps, **fit_stacked(architecture, recipe, images)}

    ways: dict[str, tuple[int, Callable[[], object]]] = {
        "loop, customary recipe": (LOOPED, loop_to_target),
        "default recipe": (IMAGES, lambda: stacked("default recipe", architecture, recipe)),
        "fastest recipe to 40 dB": (IMAGES, lambda: stacked("fastest recipe to 40 dB", CUSTOMARY, FASTEST)),
        "loop, equal steps": (LOOPED, lambda: [fit_one(images[i], i, 60, None) for i in range(LOOPED)]),
        "equal steps": (IMAGES, lambda: stacked("equal steps", CUSTOMARY, EQUAL_STEPS)),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, (fits, run) in ways.items():
            rates[name].append(fits / cpu_seconds(run))
    found["loop, equal steps"] = {"steps": 60}
    for name, values in rates.items():
        found[name]["fits per CPU-second"] = sorted(values)[ROUNDS // 2]
    for name in TARGETS:
        loop = "loop, equal steps" if name == "equal steps" else "loop, customary recipe"
        found[name]["against the loop"] = (
            found[name]["fits per CPU-second"] / found[loop]["fits per CPU-second"]
        )
    return found


def report(found: dict[str, dict[str, float]]) -> str:
    """A line for each way, with its target where it has one."""
    lines = []
    for name, figures in found.items():
        line = "   ".join(f"{figure} {value:.1f}" for figure, value in figures.items())
        target = f"   (target {TARGETS[name]:.0f})" if name in TARGETS else ""
        lines.append(f"{name:26}{line}{target}\n")
    return "".join(lines)


def test_stacked_fits_are_as_good_as_the_loop() -> None:
    found = measure()
    sys.stdout.write("\n" + report(found))
    assert found["loop, customary recipe"]["dB"] >= 40
    assert found["fastest recipe to 40 dB"]["dB"] >= 40


if __name__ == "__main__":
    sys.stdout.write(report(measure()))
