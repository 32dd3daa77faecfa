"""Modules that run as networks of any specification, for encoders that probe them."""

import math
from operator import attrgetter

import torch
from small_networks import NETWORKS, network, traced
from torch import Tensor, nn

from wsl.spec import WeightSpec


class AnyNetwork(nn.Module):
    """A function with the weights and the symmetries of any specification, and no others.

    The sum over blocks of means of ``sin(c + (1 + x) w)`` with ``c`` by the block and by every index that may
    not be permuted.
    """

    def __init__(self, spec: WeightSpec) -> None:
        super().__init__()
        self.spec_ = spec
        for name, tensor in spec.tensors.items():
            *path, last = name.split(".")
            owner: nn.Module = self
            for part in path:
                if part not in owner._modules:
                    owner.add_module(part, nn.Module())
                owner = owner._modules[part]
            owner.register_parameter(last, nn.Parameter(torch.zeros(tensor.shape)))

    def forward(self, x: Tensor) -> Tensor:
        blocks = self.spec_.split({name: attrgetter(name)(self)[None] for name in self.spec_.tensors})
        total = torch.zeros_like(x)
        for number, ref in enumerate(self.spec_.blocks):
            axes = [self.spec_.axes.get(axis) for axis in ref.block.axes]
            sizes = [
                1 if axis is not None and axis.kind == "hidden" else size
                for axis, size in zip(axes, ref.block.view, strict=True)
            ]
            places = torch.arange(math.prod(sizes), device=x.device).to(x).reshape(sizes) + number
            scaled = (1 + x).reshape(-1, *(1 for _ in sizes)) * blocks[ref.key]
            waves = (places.cos() + scaled).sin().unsqueeze(1).flatten(1)
            total = total + waves.mean(1, keepdim=True) / (1 + number)
        return total


def network_of(spec: WeightSpec) -> tuple[nn.Module, Tensor]:
    """A module of this specification, and example inputs."""
    known = next((name for name in NETWORKS if traced(name) == spec), None)
    if known is None:
        return AnyNetwork(spec), torch.rand(4, 1)
    module, examples, *_ = network(known)
    return module, examples
