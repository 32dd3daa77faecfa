"""Learned optimizers: momentum, and what a network says of every weight."""

import copy
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from wsl.learnopt._entries import Entries
from wsl.learnopt._features import OptimizerFeatures, moving_means, state_of, tensor_of
from wsl.learnopt._types import State, Tensors, under
from wsl.learnopt.networks import UpdateNetwork
from wsl.learnopt.optimizers import Optimizer
from wsl.learnopt.optimizers._base import lane_column
from wsl.learnopt.optimizers._hyperparameters import log_parameter, logit_parameter
from wsl.spec import WeightSpec


class LearnedOptimizer(Optimizer):
    """``W <- W - a (m + b f)``, with a mean ``m`` of the gradients and the output ``f`` of a network.

    It starts as descent with momentum, as ``b f`` is small. Everything is learned: ``a``, ``b``, the decay of
    ``m``, the network, and what the features have to learn. Where the hidden neurons of the first weights are
    permuted, the weights of every later step are too.

    Args:
        spec: the specification of the weights. Running statistics of norms are passed through.
        features: what the network sees.
        network: made for ``spec`` and for as many channels as ``features`` has.
        rate: ``a``.
        gain: ``b``.
        momentum: the decay of ``m``.

    Raises:
        SpecError: from :meth:`init`, parameters that are not those of ``spec``.

    Source: Zhou et al. 2024 (arXiv:2402.05232), section 4.2 and appendix C.1.
    """

    def __init__(
        self,
        spec: WeightSpec,
        features: OptimizerFeatures,
        network: UpdateNetwork,
        *,
        rate: float = 0.1,
        gain: float = 0.01,
        momentum: float = 0.9,
    ) -> None:
        super().__init__()
        self.entries = Entries(spec)
        self.features, self.network = features, network
        self.log_rate, self.log_gain = log_parameter("rate", rate), log_parameter("gain", gain)
        self.logit_momentum = logit_parameter("momentum", momentum)

    @property
    def spec(self) -> WeightSpec:
        """The specification of the weights."""
        return self.entries.spec

    def init(self, params: Tensors) -> State:
        self.entries.check(params)
        row = self.entries.flatten(params)
        return {"momentum": torch.zeros_like(row), "features": self.features.init(self.entries, row)}

    def update(
        self, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        return self.update_each({}, grads, state, params, step, loss)

    def update_each(
        self, thetas: Tensors, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        own = {name: thetas.get(name, value) for name, value in self.named_parameters(recurse=False)}
        values, slopes = self.entries.flatten(params), self.entries.flatten(grads)
        given = self.entries, values, slopes, state_of(state, "features"), step
        seen = _call(self.features, thetas, "features.", *given)
        decay = own["logit_momentum"].sigmoid().unsqueeze(-1)
        momentum = moving_means(tensor_of(state, "momentum").unsqueeze(1), slopes, decay).squeeze(1)
        output = lane_column(own["log_gain"].exp(), values) * self._network(thetas, seen.entries, seen.shared)
        move = lane_column(own["log_rate"].exp(), values) * self.direction(momentum, output)
        moved = self.entries.unflatten(values - move)
        new = {name: moved[name] if name in self.entries.names else value for name, value in params.items()}
        return new, {"momentum": momentum, "features": seen.state}

    def direction(self, momentum: Tensor, output: Tensor) -> Tensor:
        """Against which way the weights move, from ``m`` and ``b f``: all ``(L, N)``."""
        return momentum + output

    def on(self, spec: WeightSpec) -> Self:
        """The optimizer for another architecture: the same parameters, not copies.

        Raises:
            SpecError: the parameters of the network depend on the architecture.
        """
        if spec == self.spec:
            return self
        twin = copy.copy(self)
        twin._modules = self._modules.copy()
        twin.entries, twin.network = Entries(spec), self.network.on(spec)
        args, kwargs = self.given
        twin.given = ((spec, *args[1:]), kwargs) if args else ((), {**kwargs, "spec": spec})
        return twin

    def _network(self, thetas: Tensors, entries: Tensor, shared: Tensor) -> Tensor:
        """The network's output ``(L, N)``."""
        own = {name: theta for name, theta in thetas.items() if name.startswith("network.")}
        if not own or self.network.stacked:
            output: Tensor = _call(self.network, own, "network.", entries, shared)
            return output
        outputs = []
        for lane in range(len(entries)):
            theta = {name: value[lane] for name, value in own.items()}
            rows = slice(lane, lane + 1)
            outputs.append(_call(self.network, theta, "network.", entries[rows], shared[rows]))
        return torch.cat(outputs)


class NormalisedOptimizer(LearnedOptimizer):
    """``W <- W - a d / rms(d)``, with ``d = m / rms(m) + b f`` and root mean squares over each block.

    So every block moves by ``a`` a step, whatever the scales of the loss and of the weights.

    Args:
        spec, features, network: as of :class:`LearnedOptimizer`.
        rate: ``a``, the root mean square of a step.
        gain, momentum: as of :class:`LearnedOptimizer`.
        floor: what mean squares are increased by.

    Source: Moudgil et al. 2026 (arXiv:2602.19142), the normalised output. Deviates: the momentum beside it.
    """

    def __init__(
        self,
        spec: WeightSpec,
        features: OptimizerFeatures,
        network: UpdateNetwork,
        *,
        rate: float = 0.003,
        gain: float = 0.1,
        momentum: float = 0.9,
        floor: float = 1e-18,
    ) -> None:
        super().__init__(spec, features, network, rate=rate, gain=gain, momentum=momentum)
        self.floor = floor

    def direction(self, momentum: Tensor, output: Tensor) -> Tensor:
        return self.entries.normalise(self.entries.normalise(momentum, self.floor) + output, self.floor)


def in_type(optimizer: Optimizer, dtype: torch.dtype) -> Optimizer:
    """A copy for weights of a type, whatever type the optimizer was trained in.

    In float64 all of it is; else its networks are of ``dtype``, and its hyperparameters are converted where
    they are used.
    """
    made = copy.deepcopy(optimizer)
    if dtype == torch.float64:
        return made.double()
    for module in made.modules():
        if isinstance(module, UpdateNetwork):
            module.to(dtype)
    return made


def _call(module: nn.Module, thetas: Tensors, prefix: str, *args: Any) -> Any:
    """``module(*args)`` with those parameters that ``thetas`` has under its prefix."""
    own = under(thetas, prefix)
    return functional_call(module, own, args) if own else module(*args)
