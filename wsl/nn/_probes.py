"""Probe features: what the neurons of a network do at learned inputs."""

import logging
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import vmap

from wsl.nn._probe_sites import Recorder, Site, find_sites
from wsl.nn._probed_module import Inputs, ProbedModule
from wsl.spec import WeightSpec

_log = logging.getLogger(__name__)


class ProbeFeatures(ProbedModule):
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
        example_inputs: Inputs,
        probes: int = 64,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(module, spec, example_inputs, probes)
        self.channels = probes
        self.start_inputs(example_inputs, generator)
        self.look()

    def look(self) -> None:
        """Find the module outputs that show neuron axes."""
        self.sites: dict[str, Site] = find_sites(self.template, self.spec, self._run_double)
        if not self.sites:
            raise ValueError(
                "no module output shows a neuron axis of the spec; does the spec belong to this module?"
            )
        if hidden := [axis.name for axis in self.spec.hidden_axes if axis.name not in self.sites]:
            _log.info(
                "no module output shows the neurons of %s: they get no probe features", ", ".join(hidden)
            )

    def forward(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        inputs = self.learned_inputs()
        wanted = {site.call for site in self.sites.values()}

        def run(network: dict[str, Tensor]) -> dict[str, Tensor]:
            with Recorder(self.template, wanted) as outputs:
                self.run(network, inputs)
            return {axis: _pool(outputs[site.call], site.dim) for axis, site in self.sites.items()}

        features: dict[str, Tensor] = vmap(run)(dict(weights))
        shown = [(nodes.name, nodes.axes) for nodes in self.spec.topology.nodes]
        return {name: features[axes[0]] for name, axes in shown if len(axes) == 1 and axes[0] in features}

    def _run_double(self, network: Mapping[str, Tensor]) -> Recorder:
        inputs = [x.double() if x.is_floating_point() else x for x in self.learned_inputs()]
        here = {name: tensor.to(inputs[0].device) for name, tensor in network.items()}
        with Recorder(self.template) as outputs, torch.no_grad():
            self.run(here, inputs)
        for call, output in outputs.items():
            outputs[call] = output.cpu()
        return outputs


def _pool(output: Tensor, dim: int) -> Tensor:
    """``(probes, ..., n, ...)`` to ``(n, probes)``: the mean over everything but samples and neurons."""
    return output.movedim(dim, 0).flatten(2).mean(2) if output.dim() > 2 else output.T
