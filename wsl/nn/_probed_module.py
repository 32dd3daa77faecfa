"""A module that is run with the weights of many networks, at inputs of a given range."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from wsl.nn._autocast import autocast_to
from wsl.nn._recurrence import BatchableRecurrence
from wsl.spec import SpecError, WeightSpec

Inputs = Tensor | Sequence[Tensor]
_MARGIN = 0.02


class ProbedModule(nn.Module):
    """Base of modules that run networks at inputs of their own making.

    Args:
        module: a network of the architecture; its weights are ignored, it runs in evaluation mode.
        spec: the specification of the weights.
        example_inputs: a tensor, or a tuple of positional inputs, with samples along dimension 0. Inputs are
            made within the range of these samples (of each feature or channel, if there are several).
        probes: number of inputs.

    Raises:
        SpecError: the module has not the tensors that the specification names.
        ValueError: no inputs.
    """

    def __init__(self, module: nn.Module, spec: WeightSpec, example_inputs: Inputs, probes: int) -> None:
        super().__init__()
        examples = example_tuple(example_inputs)
        if probes < 1 or not examples or any(x.dim() == 0 or x.shape[0] == 0 for x in examples):
            raise ValueError(
                "probing needs probes >= 1 and example inputs with samples along dimension 0, "
                f"got probes={probes} and shapes {[tuple(x.shape) for x in examples]}."
            )
        self.probes = probes
        self.shapes = tuple(tuple(x.shape[1:]) for x in examples)
        for i, x in enumerate(examples):
            low, high = _range(x)
            self.register_buffer(f"low{i}", low)
            self.register_buffer(f"high{i}", high)
        self.hold(module, spec)

    def hold(self, module: nn.Module, spec: WeightSpec) -> None:
        """Take a module to run; its constants, which the specification does not name, become buffers."""
        _check_module(module, spec)
        self.spec = spec
        for name in [name for name in self._buffers if name.startswith("constant")]:
            delattr(self, name)
        entries = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        self._constants = tuple(name for name in entries if name not in spec.tensors)
        device = self.get_buffer("low0").device
        for i, name in enumerate(self._constants):
            self.register_buffer(
                f"constant{i}", entries[name].detach().to(device, copy=True), persistent=False
            )
        # In a tuple the module is not registered: its parameters are no parameters of the encoder.
        self._template = (copy.deepcopy(module).eval().to("meta"),)

    def for_module(self, module: nn.Module, spec: WeightSpec) -> Self:
        """The same inputs (the same parameters, not copies) for networks of another architecture.

        Args:
            module: a network of the other architecture, that runs on the same inputs.
            spec: its specification.

        Raises:
            SpecError: the module has not the tensors that the specification names, or does not run on the
                inputs.
            ValueError: as the constructor, of the other module.
        """
        twin = copy.copy(self)
        twin._modules, twin._buffers = self._modules.copy(), self._buffers.copy()
        twin.hold(module, spec)
        try:
            twin.look()
        except (RuntimeError, TypeError) as err:  # what torch raises on inputs of other shapes
            raise SpecError(
                f"{type(module).__name__} does not run on the inputs of these probes, of shape "
                f"{', '.join(map(str, self.shapes))} each: {err}\n"
                "  Probe together only networks that take the same inputs."
            ) from err
        return twin

    def look(self) -> None:
        """Find out by experiment what the module shows."""
        raise NotImplementedError

    @property
    def template(self) -> nn.Module:
        """The module that runs, without weights of its own."""
        return self._template[0]

    def bounds(self, i: int) -> tuple[Tensor, Tensor]:
        """The range of input ``i``, each broadcastable to one sample."""
        return self.get_buffer(f"low{i}"), self.get_buffer(f"high{i}")

    def start_inputs(self, example_inputs: Inputs, generator: torch.Generator | None = None) -> None:
        """Take parameters ``inputs`` that start at samples of the examples; integers are not learned."""
        self.inputs = nn.ParameterList()
        generator = generator or torch.Generator().manual_seed(0)
        for i, x in enumerate(example_tuple(example_inputs)):
            low, high = self.bounds(i)
            start = drawn_samples(x, self.probes, low, high, generator)
            if x.is_floating_point():
                start = ((start - low) / (high - low)).clamp(_MARGIN, 1 - _MARGIN).logit()
            self.inputs.append(nn.Parameter(start, requires_grad=x.is_floating_point()))

    def learned_inputs(self) -> tuple[Tensor, ...]:
        """The inputs of :meth:`start_inputs`, ``(probes, *shape)`` each, within the range of the examples."""
        bounds = map(self.bounds, range(len(self.inputs)))
        return tuple(
            low + (high - low) * x.sigmoid() if x.is_floating_point() else x
            for x, (low, high) in zip(self.inputs, bounds, strict=True)
        )

    def run(self, network: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Any:
        """The output of one network, a ``dict`` of name to ``(*shape)``, and constants in its type.

        In full precision under autocast: phases of a SIREN, say, would be lost in a shorter type.
        """
        constants = {name: self.get_buffer(f"constant{i}") for i, name in enumerate(self._constants)}
        if kind := next((x.dtype for x in network.values() if x.is_floating_point()), None):
            constants = {n: x.to(kind) if x.is_floating_point() else x for n, x in constants.items()}
        inputs = [x.to(kind) if kind and x.is_floating_point() else x for x in inputs]
        with batchable_operators(), autocast_to(inputs[0], None):
            return functional_call(self.template, {**constants, **network}, tuple(inputs))


@contextmanager
def batchable_operators() -> Iterator[None]:
    """Attention and recurrences by operators that ``vmap`` and second derivatives know, not fused kernels."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), BatchableRecurrence():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


def example_tuple(example_inputs: Inputs) -> tuple[Tensor, ...]:
    """Positional inputs as a tuple."""
    return (example_inputs,) if isinstance(example_inputs, Tensor) else tuple(example_inputs)


def drawn_samples(
    x: Tensor, probes: int, low: Tensor, high: Tensor, generator: torch.Generator | None
) -> Tensor:
    """``probes`` samples of ``x``; where there are too few, uniform ones, or repeated ones of integers."""
    generator = generator or torch.Generator().manual_seed(0)
    if x.shape[0] >= probes:
        return x[torch.randperm(x.shape[0], generator=generator)[:probes]].clone()
    if not x.is_floating_point():
        return x[torch.arange(probes) % x.shape[0]].clone()
    return low + (high - low) * torch.rand((probes, *x.shape[1:]), generator=generator, dtype=x.dtype)


def _check_module(module: nn.Module, spec: WeightSpec) -> None:
    stored = module.state_dict()
    given = {name: tuple(stored[name].shape) if name in stored else None for name in spec.tensors}
    wanted = {name: tensor.shape for name, tensor in spec.tensors.items()}
    if given != wanted:
        raise SpecError(
            "the module to probe is not of the architecture of the spec.\n"
            f"  spec: {wanted}\n  module: {given}\n"
            "  Give the module that the spec was traced from, or another one of the same architecture."
        )


def _range(x: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds of example inputs, of each feature or channel (dimension 1) if all of these vary."""
    rest = [d for d in range(x.dim()) if d != 1 or x.dim() == 1]
    low, high = x.amin(rest, keepdim=True), x.amax(rest, keepdim=True)
    if not (low < high).all():
        low, high = x.min().expand_as(low), x.max().expand_as(high)
    if not (low < high).all():
        low, high = low - 1, high + 1
    return low[0].clone(), high[0].clone()
