"""A multilayer perceptron."""

from itertools import pairwise

from torch import nn


class MLP(nn.Sequential):
    """Linear layers with ReLU, and dropout after each hidden one.

    Args:
        inputs: width of the input.
        hidden: width of the hidden layers.
        layers: number of hidden layers; without any it is one linear map.
        outputs: width of the output.
        dropout: rate after each hidden layer.

    Raises:
        ValueError: a negative number of layers.
    """

    def __init__(self, inputs: int, hidden: int, layers: int, outputs: int, dropout: float = 0.0) -> None:
        if layers < 0:
            raise ValueError(f"an MLP needs at least 0 hidden layers, got layers={layers}.")
        widths = [inputs] + [hidden] * layers
        stack: list[nn.Module] = []
        for fan_in, fan_out in pairwise(widths):
            stack += [nn.Linear(fan_in, fan_out), nn.ReLU(), nn.Dropout(dropout)]
        super().__init__(*stack, nn.Linear(widths[-1], outputs))
