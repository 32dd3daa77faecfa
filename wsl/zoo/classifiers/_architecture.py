"""Which architectures the networks of a zoo have."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wsl.models import ACTIVATIONS
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.classifiers._small_cnn_stack import SmallCnnStack
from wsl.zoo.classifiers._stack import ClassifierStack
from wsl.zoo.training import all_whole, check_choice, draw_choice


@dataclass(frozen=True)
class Task:
    """What all networks of a zoo take and give: images ``(channels, *size)``, and ``classes`` outputs."""

    channels: int
    size: tuple[int, int]
    classes: int

    def example(self) -> Tensor:
        """Two images of noise, always the same: ``(2, channels, *size)``."""
        return torch.randn(2, self.channels, *self.size, generator=torch.Generator().manual_seed(0))


class ClassifierArchitecture(ABC):
    """The architectures that networks of a zoo are drawn from."""

    @abstractmethod
    def draw(self, task: Task, generator: np.random.Generator) -> ForwardDefinition:
        """The architecture of one network."""

    @abstractmethod
    def stack(self, forward: ForwardDefinition) -> ClassifierStack:
        """Computes with many networks of one of these architectures at once."""

    @abstractmethod
    def name(self, forward: ForwardDefinition) -> str:
        """A name that tells one of these architectures from the others."""

    @abstractmethod
    def columns(self, forward: ForwardDefinition) -> dict[str, Any]:
        """Metadata of a network of this architecture; the same columns for all."""


def check_counts(**counts: int | list[int]) -> None:
    """Raise ZooError unless all that can be drawn are positive integers."""
    for name, value in counts.items():
        if not all_whole(value, 1):
            raise ZooError(f"architecture.{name} is {value}, expected positive integers.")


@dataclass(frozen=True)
class SmallCnns(ClassifierArchitecture):
    """Networks of :class:`wsl.models.SmallCNN`: 4,970 parameters for gray images in ten classes by default.

    Args:
        channels: of each convolution.
        activation: name of the activation, or several to choose from.
        kernel_size, stride: of each convolution.

    Raises:
        ZooError: a value outside its range; images that are too small, when one is drawn.
    """

    channels: tuple[int, ...] = (16, 16, 16)
    activation: str | list[str] = field(default_factory=lambda: ["relu", "tanh"])
    kernel_size: int = 3
    stride: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", tuple(self.channels))
        if not self.channels or min(*self.channels, self.kernel_size, self.stride) < 1:
            raise ZooError(
                f"architecture has channels {self.channels}, kernel_size {self.kernel_size} and stride "
                f"{self.stride}, expected positive numbers and at least one layer."
            )
        check_choice("architecture.activation", self.activation, list(ACTIVATIONS))

    def draw(self, task: Task, generator: np.random.Generator) -> ForwardDefinition:
        side = min(task.size)
        for _ in self.channels:
            side = (side - self.kernel_size) // self.stride + 1
            if side < 1:
                raise ZooError(
                    f"Images of {task.size[0]} x {task.size[1]} pixels are too small for "
                    f"{len(self.channels)} convolutions of {self.kernel_size} x {self.kernel_size} with "
                    f"stride {self.stride}. Take fewer layers or a smaller stride."
                )
        arguments = {
            "in_channels": task.channels,
            "channels": list(self.channels),
            "classes": task.classes,
            "activation": draw_choice(self.activation, generator),
            "kernel_size": self.kernel_size,
            "stride": self.stride,
        }
        return ForwardDefinition("wsl.models:SmallCNN", arguments)

    def stack(self, forward: ForwardDefinition) -> SmallCnnStack:
        return SmallCnnStack(forward)

    def name(self, forward: ForwardDefinition) -> str:
        return f"cnn-{forward.arguments['activation']}"

    def columns(self, forward: ForwardDefinition) -> dict[str, Any]:
        return {"activation": forward.arguments["activation"]}
