"""Multilayer perceptrons that classify images."""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from wsl.models._activations import activation_module


class MLP(nn.Module):
    """Linear layers on the pixels of an image, with an activation after each but the last.

    Args:
        in_features: channels times pixels of the images.
        hidden: widths of the hidden layers; without any, the network is linear.
        classes: outputs.
        activation: name of the activation, see :data:`wsl.models.ACTIVATIONS`.
        dropout: probability after each activation; has a part in training only.

    Shapes: input ``(B, ...)`` with ``in_features`` values each, output ``(B, classes)``. Parameters are named
    ``layers.{i}``.
    """

    def __init__(
        self,
        in_features: int = 784,
        hidden: Sequence[int] = (32, 32),
        classes: int = 10,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        widths = [in_features, *hidden, classes]
        self.layers = nn.ModuleList(nn.Linear(n_in, n_out) for n_in, n_out in pairwise(widths))
        self.activations = nn.ModuleList(activation_module(activation) for _ in hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        for number, activation in enumerate(self.activations):
            x = self.dropout(activation(self.layers[number](x)))
        out: Tensor = self.layers[-1](x)
        return out
