"""Small vision Transformers as the architecture of a zoo."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from wsl.models import ACTIVATIONS
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.classifiers._architecture import ClassifierArchitecture, Task, check_counts
from wsl.zoo.classifiers._module_stack import ModuleStack
from wsl.zoo.training import as_list, check_choice, draw_choice


@dataclass(frozen=True)
class Vits(ClassifierArchitecture):
    """Networks of :class:`wsl.models.SmallViT`.

    Args:
        width: of the blocks, or several to choose from; the layers inside are twice as wide.
        depth: blocks, or several to choose from.
        heads: of each attention, or several to choose from; each divides each width.
        patch: side of the patches; divides both sides of the images.
        activation: name of the activation, or several to choose from.

    Raises:
        ZooError: a value outside its range; images that do not consist of patches, when one is drawn.
    """

    width: int | list[int] = 16
    depth: int | list[int] = 2
    heads: int | list[int] = 2
    patch: int = 7
    activation: str | list[str] = "gelu"

    def __post_init__(self) -> None:
        check_counts(width=self.width, depth=self.depth, heads=self.heads, patch=self.patch)
        check_choice("architecture.activation", self.activation, list(ACTIVATIONS))
        if any(width % heads for width, heads in product(as_list(self.width), as_list(self.heads))):
            raise ZooError(f"architecture.heads {self.heads} do not divide architecture.width {self.width}.")

    def draw(self, task: Task, generator: np.random.Generator) -> ForwardDefinition:
        if any(side % self.patch for side in task.size):
            raise ZooError(
                f"Images of {task.size[0]} x {task.size[1]} pixels do not consist of patches of "
                f"{self.patch} x {self.patch}. Choose another architecture.patch."
            )
        width = draw_choice(self.width, generator)
        arguments = {
            "in_channels": task.channels,
            "height": task.size[0],
            "width": task.size[1],
            "patch": self.patch,
            "d_model": width,
            "blocks": draw_choice(self.depth, generator),
            "heads": draw_choice(self.heads, generator),
            "feedforward": 2 * width,
            "classes": task.classes,
            "activation": draw_choice(self.activation, generator),
        }
        return ForwardDefinition("wsl.models:SmallViT", arguments)

    def stack(self, forward: ForwardDefinition) -> ModuleStack:
        return ModuleStack(forward)

    def name(self, forward: ForwardDefinition) -> str:
        columns = self.columns(forward)
        return f"vit-{columns['width']}x{columns['depth']}-{columns['heads']}-{columns['activation']}"

    def columns(self, forward: ForwardDefinition) -> dict[str, Any]:
        arguments = forward.arguments
        return {
            "activation": arguments["activation"],
            "width": arguments["d_model"],
            "depth": arguments["blocks"],
            "heads": arguments["heads"],
        }
