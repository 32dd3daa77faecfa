"""A universal layer to one channel that maps before it averages: equal to the layer itself."""

import pytest
import torch
from hypothesis import given, settings
from torch.func import functional_call

from wsl.nn import NarrowUniversal, Signature, UniversalLinear
from wsl.spec import WeightSpec
from wsl.testing import random_specs

CHANNELS = 3


def layer_of(spec: WeightSpec, out_channels: int = 1) -> UniversalLinear:
    axes = [[ref.block.axes[dim] for dim in ref.block.neuron_dims] for ref in spec.blocks]
    tensors = [Signature(tuple(names)) for names in axes]
    sizes = {name: axis.size for name, axis in spec.axes.items()}
    families = {name: axis.family for name, axis in spec.axes.items() if axis.family}
    return UniversalLinear(tensors, tensors, sizes, CHANNELS, out_channels, families).double()


def mapped(columns: list[torch.Tensor], states: list[torch.Tensor]) -> list[torch.Tensor]:
    flat = [state.flatten(1, -2) if state.dim() > 2 else state.unsqueeze(1) for state in states]
    return [
        (column @ rows.mT).reshape(len(state), -1, *state.shape[1:-1])
        for column, rows, state in zip(columns, flat, states, strict=True)
    ]


@settings(max_examples=20)
@given(spec=random_specs(max_size=3))
def test_equal_to_the_layer(spec: WeightSpec) -> None:
    layer = layer_of(spec)
    states = [torch.randn(2, *shape[:-1], CHANNELS, dtype=torch.float64) for shape in layer.shapes]
    narrow = NarrowUniversal(layer)
    found = narrow.combine(mapped(narrow.columns(list(layer.weights)), states), layer.bias)
    for got, expected in zip(found, layer(states), strict=True):
        torch.testing.assert_close(got, expected)


def test_parameters_of_each_network() -> None:
    spec = WeightSpec.parse("axes h: 3 hidden  x: 2 input\nfirst h x\nrecurrent h h\nbias h")
    layer = layer_of(spec)
    states = [torch.randn(2, *shape[:-1], CHANNELS, dtype=torch.float64) for shape in layer.shapes]
    narrow = NarrowUniversal(layer)
    own = {
        name: torch.randn(2, *value.shape, dtype=torch.float64) for name, value in layer.named_parameters()
    }
    weights = [own[f"weights.{i}"] for i in range(len(layer.weights))]
    found = narrow.combine(mapped(narrow.columns(weights), states), own["bias"])
    for i in range(2):
        theta = {name: value[i] for name, value in own.items()}
        expected = functional_call(layer, theta, ([state[i : i + 1] for state in states],))
        for got, wanted in zip(found, expected, strict=True):
            torch.testing.assert_close(got[i : i + 1], wanted)


def test_more_channels_are_refused() -> None:
    spec = WeightSpec.parse("axes h: 3 hidden  x: 2 input\nfirst h x")
    with pytest.raises(ValueError, match="one output channel"):
        NarrowUniversal(layer_of(spec, out_channels=2))
