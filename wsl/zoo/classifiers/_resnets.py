"""Small residual networks as the architecture of a zoo."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wsl.models import ACTIVATIONS, RESNET_NORMS
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.classifiers._architecture import ClassifierArchitecture, Task, check_counts
from wsl.zoo.classifiers._module_stack import ModuleStack
from wsl.zoo.training import check_choice, draw_choice


@dataclass(frozen=True)
class ResNets(ClassifierArchitecture):
    """Networks of :class:`wsl.models.SmallResNet`; running statistics are stored with the weights.

    Args:
        width: channels of the first stage, or several to choose from.
        depth: residual blocks of each stage, or several to choose from.
        stages: how many; the image is halved and the channels are doubled from each to the next.
        activation: name of the activation, or several to choose from.
        norm: ``batch``, ``layer``, or both to choose from.

    Raises:
        ZooError: a value outside its range.
    """

    width: int | list[int] = 8
    depth: int | list[int] = 1
    stages: int = 3
    activation: str | list[str] = "relu"
    norm: str | list[str] = field(default_factory=lambda: ["batch", "layer"])

    def __post_init__(self) -> None:
        check_counts(width=self.width, depth=self.depth, stages=self.stages)
        check_choice("architecture.activation", self.activation, list(ACTIVATIONS))
        check_choice("architecture.norm", self.norm, RESNET_NORMS)

    def draw(self, task: Task, generator: np.random.Generator) -> ForwardDefinition:
        arguments = {
            "in_channels": task.channels,
            "width": draw_choice(self.width, generator),
            "blocks": [draw_choice(self.depth, generator)] * self.stages,
            "classes": task.classes,
            "activation": draw_choice(self.activation, generator),
            "norm": draw_choice(self.norm, generator),
        }
        return ForwardDefinition("wsl.models:SmallResNet", arguments)

    def stack(self, forward: ForwardDefinition) -> ModuleStack:
        return ModuleStack(forward)

    def name(self, forward: ForwardDefinition) -> str:
        columns = self.columns(forward)
        return f"resnet-{columns['width']}x{columns['depth']}-{columns['activation']}-{columns['norm']}"

    def columns(self, forward: ForwardDefinition) -> dict[str, Any]:
        columns = {name: forward.arguments[name] for name in ("activation", "width", "norm")}
        return {**columns, "depth": forward.arguments["blocks"][0]}
