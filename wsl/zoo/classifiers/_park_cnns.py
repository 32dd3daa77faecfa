"""Architectures like those of the CNN Wild Park."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from wsl.models import ACTIVATIONS
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.classifiers._architecture import ClassifierArchitecture, Task
from wsl.zoo.classifiers._park_cnn_stack import ParkCnnStack
from wsl.zoo.training import as_list, check_choice, check_whole, draw_choice


@dataclass(frozen=True)
class ParkCnns(ClassifierArchitecture):
    """Networks of :class:`wsl.models.ParkCNN`, whose layers differ in all that a layer can.

    Each convolution draws its own channels, kernel (padded by half its size), stride and activation. It may
    have a skip connection from an earlier layer with images of the same size, but not from the one just
    before: any of these is as likely as none.

    Columns: ``depth``, the number of convolutions; ``parameters`` and ``skips``, how many there are; and by
    layer, joined to a text, ``channels``, ``kernel_size``, ``stride`` and ``activation``.

    Args:
        distinct: how many architectures the networks share, so that those of one train together; None gives
            each network its own.
        depth: numbers of convolutions to choose from.
        channels, kernel_size, activation: what each convolution chooses from.
        first_stride: what the first convolution chooses from.
        stride: what the other convolutions choose from.
        skips: whether there are skip connections.
        seed: of the architectures that are shared; zoos with the same have the same.

    Raises:
        ZooError: a value outside its range.

    Source: Kofinas et al. 2024 (arXiv:2403.12143), the CNN Wild Park; the defaults are the choices of the
    authors' sampler.
    """

    distinct: int | None = None
    depth: int | list[int] = field(default_factory=lambda: [2, 3, 4, 5])
    channels: int | list[int] = field(default_factory=lambda: [4, 8, 16, 32])
    kernel_size: int | list[int] = field(default_factory=lambda: [3, 5, 7])
    activation: str | list[str] = field(
        default_factory=lambda: ["relu", "gelu", "tanh", "sigmoid", "leaky_relu"]
    )
    first_stride: int | list[int] = 1
    stride: int | list[int] = 1
    skips: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("depth", "channels", "kernel_size", "first_stride", "stride"):
            check_whole(f"architecture.{name}", getattr(self, name), 1)
        if any(size % 2 == 0 for size in as_list(self.kernel_size)):
            raise ZooError(f"architecture.kernel_size is {self.kernel_size}, expected odd numbers.")
        check_choice("architecture.activation", self.activation, list(ACTIVATIONS))
        if self.seed < 0 or (self.distinct is not None and self.distinct < 1):
            raise ZooError(
                f"architecture has distinct {self.distinct} and seed {self.seed}, expected at least 1 (or "
                "nothing) and 0."
            )

    def draw(self, task: Task, generator: np.random.Generator) -> ForwardDefinition:
        if self.distinct is not None:
            number = int(generator.random() * self.distinct)
            generator = np.random.default_rng([self.seed, number])
        depth = draw_choice(self.depth, generator)
        channels, kernels, activations, strides, residual = [task.channels], [], [], [], list[int]()
        sizes, size = list[tuple[int, int]](), task.size
        for layer in range(depth):
            channels.append(draw_choice(self.channels, generator))
            kernels.append(draw_choice(self.kernel_size, generator))
            activations.append(draw_choice(self.activation, generator))
            strides.append(draw_choice(self.stride if layer else self.first_stride, generator))
            size = (size[0] - 1) // strides[-1] + 1, (size[1] - 1) // strides[-1] + 1
            sources = [source for source in range(layer - 1) if self.skips and sizes[source] == size]
            residual.append(draw_choice([-1, *sources], generator))
            sizes.append(size)
        arguments = {
            "channels": channels,
            "kernel_size": kernels,
            "activation": activations,
            "stride": strides,
            "padding": [kernel // 2 for kernel in kernels],
            "residual": residual,
            "classes": task.classes,
        }
        return ForwardDefinition("wsl.models:ParkCNN", arguments)

    def stack(self, forward: ForwardDefinition) -> ParkCnnStack:
        return ParkCnnStack(forward)

    def name(self, forward: ForwardDefinition) -> str:
        lists = [forward.arguments[name] for name in ("kernel_size", "stride", "activation", "residual")]
        layers = zip(forward.arguments["channels"][1:], *lists, strict=True)
        words = [
            f"{channels}x{kernel}s{stride}{activation}" + (f"+{source}" if source >= 0 else "")
            for channels, kernel, stride, activation, source in layers
        ]
        return "-".join(["cnn", *words])

    def columns(self, forward: ForwardDefinition) -> dict[str, Any]:
        arguments = forward.arguments
        channels, kernels = arguments["channels"], arguments["kernel_size"]
        convolutions = sum(
            (inputs * kernel**2 + 1) * outputs
            for (inputs, outputs), kernel in zip(pairwise(channels), kernels, strict=True)
        )
        return {
            "depth": len(kernels),
            "parameters": convolutions + (channels[-1] + 1) * arguments["classes"],
            "skips": sum(source >= 0 for source in arguments["residual"]),
            "channels": "-".join(map(str, channels[1:])),
            "kernel_size": "-".join(map(str, kernels)),
            "stride": "-".join(map(str, arguments["stride"])),
            "activation": "-".join(arguments["activation"]),
        }
