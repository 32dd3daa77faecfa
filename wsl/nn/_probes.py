"""Probe features: what the neurons of a network do at learned inputs."""

import copy
import logging
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from wsl.nn._probe_sites import Recorder, Site, find_sites
from wsl.spec import SpecError, WeightSpec

_log = logging.getLogger(__name__)
_MARGIN = 0.02


class ProbeFeatures(nn.Module):
    """Runs every network on the same learned inputs; activations become features of its neurons.

    Which module output shows which neuron axis is found by experiment, at construction, in float64: permute
    an axis in random weights, and take the last module output of which one dimension is permuted likewise,
    and nothing else changes. So features are equivariant for any architecture; an axis that no module output
    shows gets no features, and the log says so. All node sets of an axis, as those along a residual stream,
    get those of its last output; nodes with several axes, as the inner neurons of attention heads, get none.

    Args:
        module: a network of the architecture; its weights are ignored, it runs in evaluation mode.
        spec: the specification of the weights.
        example_inputs: a tensor, or a tuple of positional inputs, with samples along dimension 0. Learned
            inputs start at these samples and stay within their range (of each feature or channel, if there
            are several samples). Integer inputs are not learned: the samples themselves are used.
        probes: number of inputs.
        generator: picks the samples to start from; a fixed seed if not given.

    Shapes: weights ``(B, *shape)``, raw, to ``dict`` of node set to ``(B, n, channels)`` with
    ``channels = probes``; dimensions of a module output besides samples and neurons (pixels) are averaged.

    Raises:
        SpecError: the module has not the tensors that the specification names.
        ValueError: no inputs, or no axis that can be probed.

    Source: Kofinas et al. 2024, section 4 (arXiv:2403.12143). Deviates: bounded inputs; probes of any module.
    """

    def __init__(
        self,
        module: nn.Module,
        spec: WeightSpec,
        example_inputs: Tensor | Sequence[Tensor],
        probes: int = 64,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        examples = (example_inputs,) if isinstance(example_inputs, Tensor) else tuple(example_inputs)
        if probes < 1 or not examples or any(x.dim() == 0 or x.shape[0] == 0 for x in examples):
            raise ValueError(
                "probing needs probes >= 1 and example inputs with samples along dimension 0, "
                f"got probes={probes} and shapes {[tuple(x.shape) for x in examples]}."
            )
        _check_module(module, spec)
        self.spec = spec
        self.channels = probes
        self.inputs = nn.ParameterList()
        generator = generator or torch.Generator().manual_seed(0)
        for i, x in enumerate(examples):
            low, high = _range(x)
            self.register_buffer(f"low{i}", low)
            self.register_buffer(f"high{i}", high)
            start = _start(x, probes, low, high, generator)
            if x.is_floating_point():
                start = ((start - low) / (high - low)).clamp(_MARGIN, 1 - _MARGIN).logit()
            self.inputs.append(nn.Parameter(start, requires_grad=x.is_floating_point()))
        entries = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        self._constants = tuple(name for name in entries if name not in spec.tensors)
        for i, name in enumerate(self._constants):
            self.register_buffer(f"constant{i}", entries[name].detach().clone(), persistent=False)
        # In a tuple the module is not registered: its parameters are no parameters of the encoder.
        self._template = (copy.deepcopy(module).eval().to("meta"),)
        self.sites: dict[str, Site] = find_sites(self._template[0], spec, self._run_double)
        if not self.sites:
            raise ValueError(
                "no module output shows a neuron axis of the spec; does the spec belong to this module?"
            )
        if hidden := [axis.name for axis in spec.hidden_axes if axis.name not in self.sites]:
            _log.info(
                "no module output shows the neurons of %s: they get no probe features", ", ".join(hidden)
            )

    def learned_inputs(self) -> tuple[Tensor, ...]:
        """The inputs, ``(probes, *shape)`` each, within the range of the examples."""
        bounds = ((self.get_buffer(f"low{i}"), self.get_buffer(f"high{i}")) for i in range(len(self.inputs)))
        return tuple(
            low + (high - low) * x.sigmoid() if x.is_floating_point() else x
            for x, (low, high) in zip(self.inputs, bounds, strict=True)
        )

    def forward(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        inputs = self.learned_inputs()
        constants = {name: self.get_buffer(f"constant{i}") for i, name in enumerate(self._constants)}
        wanted = {site.call for site in self.sites.values()}

        def run(network: dict[str, Tensor]) -> dict[str, Tensor]:
            with Recorder(self._template[0], wanted) as outputs:
                functional_call(self._template[0], {**constants, **network}, inputs)
            return {axis: _pool(outputs[site.call], site.dim) for axis, site in self.sites.items()}

        features: dict[str, Tensor] = vmap(run)(dict(weights))
        shown = [(nodes.name, nodes.axes) for nodes in self.spec.topology.nodes]
        return {name: features[axes[0]] for name, axes in shown if len(axes) == 1 and axes[0] in features}

    def _run_double(self, network: Mapping[str, Tensor]) -> Recorder:
        double = [x.double() if x.is_floating_point() else x for x in self.learned_inputs()]
        constants = {name: self.get_buffer(f"constant{i}") for i, name in enumerate(self._constants)}
        constants = {name: x.double() if x.is_floating_point() else x for name, x in constants.items()}
        with Recorder(self._template[0]) as outputs, torch.no_grad():
            functional_call(self._template[0], {**constants, **network}, tuple(double))
        return outputs


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


def _pool(output: Tensor, dim: int) -> Tensor:
    """``(probes, ..., n, ...)`` to ``(n, probes)``: the mean over everything but samples and neurons."""
    return output.movedim(dim, 0).flatten(2).mean(2) if output.dim() > 2 else output.T


def _range(x: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds of example inputs, of each feature or channel (dimension 1) if all of these vary."""
    rest = [d for d in range(x.dim()) if d != 1 or x.dim() == 1]
    low, high = x.amin(rest, keepdim=True), x.amax(rest, keepdim=True)
    if not (low < high).all():
        low, high = x.min().expand_as(low), x.max().expand_as(high)
    if not (low < high).all():
        low, high = low - 1, high + 1
    return low[0].clone(), high[0].clone()


def _start(x: Tensor, probes: int, low: Tensor, high: Tensor, generator: torch.Generator) -> Tensor:
    if x.shape[0] >= probes:
        return x[torch.randperm(x.shape[0], generator=generator)[:probes]].clone()
    if not x.is_floating_point():
        return x[torch.arange(probes) % x.shape[0]].clone()
    return low + (high - low) * torch.rand((probes, *x.shape[1:]), generator=generator, dtype=x.dtype)
