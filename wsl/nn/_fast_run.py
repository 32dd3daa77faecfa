"""Running every network on learned inputs along its computational graph, without its module."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsl.graph import GraphLayout
from wsl.nn._embedding import PositionGains
from wsl.nn._fast_order import NodeStep
from wsl.nn._linear_messages import fan_in, use_messages
from wsl.nn._positions import NEURON_FEATURES, neuron_features

_NORMS = ("layer_norm", "group_norm", "rms_norm")
_LINEAR = (None, "product", "batch_norm", *_NORMS)
_HOMOGENEOUS: dict[str | None, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "prelu": F.leaky_relu,
}
_UNBOUNDED: dict[str | None, Callable[[Tensor], Tensor]] = {
    "elu": F.elu,
    "selu": F.selu,
    "gelu": F.gelu,
    "silu": F.silu,
    "mish": F.mish,
    "softplus": F.softplus,
    "hardswish": F.hardswish,
}
_BOUNDED: dict[str | None, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "hardtanh": F.hardtanh,
    "hardsigmoid": F.hardsigmoid,
}
_WAVES: dict[str | None, Callable[[Tensor], Tensor]] = {"sin": torch.sin, "cos": torch.cos}
_ROOT_MEAN_SQUARE = math.sqrt(0.5)  # of a sine, and of half of the values
_EPSILON = 1e-5
_SMALLEST = 1e-30
_LARGEST = 1e6
_LARGEST_LOG = 30.0


class Values(NamedTuple):
    """Values of nodes: ``relative * exp(log_scale)``.

    Args:
        relative: ``(B, n, P)``, with a mean square of about 1.
        log_scale: a number, by the statistics of the weights.
    """

    relative: Tensor
    log_scale: Tensor


class LearnedRun(nn.Module):
    """Runs every network on learned inputs, from inputs to outputs, as far as its graph says how.

    Each channel is one run. A node that nothing leads to gets a learned value; every other one the sum of
    what leads to it, weights times what sends, then what lies on it (biases; statistics, factors and shifts
    of norms), then its activation. Sines have a scale that no specification knows of, ``sin(w0 (W x + b))``:
    their arguments are scaled to a mean square of about 1 by the statistics of the weights, and each run
    multiplies them by learned gains, a factor of its own and one that depends on what the specification says
    of the nodes. Results are scaled likewise, by one number for each node set, and cut off at a million
    times what the statistics expect, so that networks far outside of them do not overflow.

    It is exact, up to these gains and scales, for networks of perceptrons, residual connections, and batch
    norms on pictures of one pixel. Else it is no simulation: norms are taken over the nodes of a set,
    operators that the graph does not describe (softmax) are a tanh, weights at several kernel positions are
    summed with learned gains, states of a recurrence are not fed back.

    Args:
        runs: number of inputs, ``P``.
        gains: smallest and largest gain of sines at the start.

    Shapes: raw weights by block key as :meth:`wsl.graph.GraphBlock.to_graph` orders them, to ``(B, N, P)``.
    """

    def __init__(self, runs: int, gains: tuple[float, float] = (0.5, 4.0)) -> None:
        super().__init__()
        self.inputs = nn.Linear(NEURON_FEATURES, runs)
        self.log_gains = nn.Linear(NEURON_FEATURES, runs, bias=False)
        low, high = map(math.log, gains)
        self.spread = nn.Parameter(low + (high - low) * torch.rand(runs))
        self.positions = PositionGains(runs)
        nn.init.normal_(self.inputs.weight, std=0.25)
        nn.init.zeros_(self.log_gains.weight)

    def forward(
        self,
        layout: GraphLayout,
        order: Sequence[NodeStep],
        weights: Mapping[str, Tensor],
        squares: Mapping[str, Tensor],
    ) -> Tensor:
        """Run networks.

        Args:
            layout: the computational graph.
            order: its :func:`run_order`; asked for once, as compilers do not see what is cached.
            weights: raw, by block key.
            squares: by block key the mean square of its entries over a training split.
        """
        count = len(next(iter(weights.values())))
        features = neuron_features(layout, self.spread.dtype, self.spread.device)
        zero = self.spread.new_zeros(())
        values: dict[str, Values] = {}
        for step in order:
            own = features[layout.slices[step.name]]
            if step.is_input:
                inputs = self.inputs(own).expand(count, -1, -1)
                values[step.name] = _scaled(inputs, zero + _ROOT_MEAN_SQUARE**2, zero)
                continue
            total = self._arriving(step, values, weights, squares)
            if step.activation in _NORMS:
                centre = step.activation != "rms_norm"
                total = Values(_standardised(total.relative, centre), torch.zeros_like(total.log_scale))
            values[step.name] = self._activated(step, _held(step, total, weights, squares), own)
        none = self.spread.new_zeros(count, 0, len(self.spread))  # a network may have no neurons
        return torch.cat([none, *(values[name].relative for name in layout.sizes)], dim=1)

    def _arriving(
        self,
        step: NodeStep,
        values: Mapping[str, Values],
        weights: Mapping[str, Tensor],
        squares: Mapping[str, Tensor],
    ) -> Values:
        """The sum, or the product, of what leads to a set of nodes."""
        parts, logs = [], []
        for block, number in step.inputs:
            source = block.uses[number].source
            assert source is not None
            gains, sent = self.positions(block, self.spread), values[source.nodes]
            messages = use_messages(block, number, 0, weights[block.key], gains, sent.relative)
            degree, square = fan_in(block, number, 0), squares[block.key].clamp(min=_SMALLEST)
            parts.append(messages * square.rsqrt())
            logs.append(sent.log_scale + (square * degree).log() / 2)
        for use in step.identities:
            assert use.source is not None
            sent = values[use.source.nodes]
            parts.append(use.target.unfold(use.source.fold(sent.relative)))
            logs.append(sent.log_scale)
        if step.activation == "product":
            return Values(_cut_off(torch.stack(parts)).prod(0), torch.stack(logs).sum())
        if len(parts) == 1:
            return Values(parts[0], logs[0])
        log_scale = torch.stack(logs).amax()
        shares = [(log - log_scale).exp() for log in logs]
        together = torch.stack([part * share for part, share in zip(parts, shares, strict=True)]).sum(0)
        return _scaled(together, torch.stack(shares).square().sum(), log_scale)

    def _activated(self, step: NodeStep, total: Values, features: Tensor) -> Values:
        relative, log_scale = total
        if step.activation in _LINEAR:
            return Values(_cut_off(relative), log_scale)
        if function := _HOMOGENEOUS.get(step.activation):
            relative = function(_cut_off(relative))
            return Values(relative / _ROOT_MEAN_SQUARE, log_scale + math.log(_ROOT_MEAN_SQUARE))
        if function := _UNBOUNDED.get(step.activation):
            log_scale, least = log_scale.clamp(max=_LARGEST_LOG), log_scale.clamp(0, _LARGEST_LOG)
            relative = function(_cut_off(relative) * log_scale.exp())
            return Values(relative * (-least).exp(), least)
        if function := _BOUNDED.get(step.activation):
            relative = function(relative * log_scale.clamp(max=_LARGEST_LOG).exp())
        else:
            gains = (self.spread + self.log_gains(features)).exp()
            relative = _WAVES.get(step.activation, torch.tanh)(relative * gains)
        return Values(relative / _ROOT_MEAN_SQUARE, torch.full_like(log_scale, math.log(_ROOT_MEAN_SQUARE)))


def _held(
    step: NodeStep, total: Values, weights: Mapping[str, Tensor], squares: Mapping[str, Tensor]
) -> Values:
    """Apply what lies on the nodes: biases, and statistics, factors and shifts of norms."""
    if not step.held:
        return total
    log_scale = total.log_scale.clamp(min=0)  # what is added may be larger than all that arrives
    relative = total.relative * (total.log_scale - log_scale).exp()
    square = (2 * (total.log_scale - log_scale)).exp()
    for block in step.held:
        mean = weights[block.key].mean(-1, keepdim=True)
        own = next(value for name, value in block.to_nodes(mean) if name == step.name)
        if block.role == "running_mean":
            relative = relative - own * (-log_scale).exp()
        elif block.role == "running_var":
            relative, square = relative * (own.abs() + _EPSILON).rsqrt(), (-2 * log_scale).exp()
        elif block.role == "weight":
            relative, square = relative * own, square * squares[block.key]
        else:
            relative = relative + own * (-log_scale).exp()
            square = square + squares[block.key] * (-2 * log_scale).exp()
    return _scaled(relative, square, log_scale)


def _scaled(relative: Tensor, square: Tensor, log_scale: Tensor) -> Values:
    """Values whose mean square is ``square``, and then about 1."""
    square = square.clamp(min=_SMALLEST)
    return Values(relative * square.rsqrt(), log_scale + square.log() / 2)


def _cut_off(relative: Tensor) -> Tensor:
    return relative.clamp(-_LARGEST, _LARGEST)


def _standardised(x: Tensor, centre: bool) -> Tensor:
    """Nodes ``(B, n, P)`` of one set with mean square 1, for every run by itself."""
    x = x - x.mean(1, keepdim=True) if centre else x
    return x * (x.square().mean(1, keepdim=True) + _EPSILON).rsqrt()
