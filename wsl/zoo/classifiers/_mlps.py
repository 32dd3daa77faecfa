"""Multilayer perceptrons as the architecture of a zoo."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wsl.models import ACTIVATIONS
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.classifiers._architecture import ClassifierArchitecture, Task, check_counts
from wsl.zoo.classifiers._module_stack import ModuleStack
from wsl.zoo.training import check_choice, draw_choice


@dataclass(frozen=True)
class Mlps(ClassifierArchitecture):
    """Networks of :class:`wsl.models.MLP`, whose hidden layers have one width.

    Args:
        width: neurons of each hidden layer, or several to choose from.
        depth: hidden layers, or several to choose from.
        activation: name of the activation, or several to choose from.

    Raises:
        ZooError: a value outside its range.
    """

    width: int | list[int] = 32
    depth: int | list[int] = 2
    activation: str | list[str] = field(default_factory=lambda: ["relu", "tanh"])

    def __post_init__(self) -> None:
        check_counts(width=self.width, depth=self.depth)
        check_choice("architecture.activation", self.activation, list(ACTIVATIONS))

    def draw(self, task: Task, generator: np.random.Generator) -> ForwardDefinition:
        width, depth = draw_choice(self.width, generator), draw_choice(self.depth, generator)
        arguments = {
            "in_features": task.channels * task.size[0] * task.size[1],
            "hidden": [width] * depth,
            "classes": task.classes,
            "activation": draw_choice(self.activation, generator),
        }
        return ForwardDefinition("wsl.models:MLP", arguments)

    def stack(self, forward: ForwardDefinition) -> ModuleStack:
        return ModuleStack(forward)

    def name(self, forward: ForwardDefinition) -> str:
        columns = self.columns(forward)
        return f"mlp-{columns['width']}x{columns['depth']}-{columns['activation']}"

    def columns(self, forward: ForwardDefinition) -> dict[str, Any]:
        hidden = forward.arguments["hidden"]
        return {"activation": forward.arguments["activation"], "width": hidden[0], "depth": len(hidden)}
