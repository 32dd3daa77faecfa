"""What networks answer to inputs that all of them share."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.functional import logsigmoid

from wsl.nn._probed_module import Inputs, ProbedModule
from wsl.spec import WeightSpec

LEAST_LOG_PROBABILITY = -4.0
"""Classes that are less likely than this, 2 %, count as it: how much less says little of a network."""


class AnsweringModule(ProbedModule):
    """Runs every network on the same inputs, and returns its answers; subclasses make the inputs.

    Shapes: weights ``(B, *shape)``, raw, to ``(B, channels)``: all real numbers of the module's output for
    all probes; ``channels`` says how many. With ``logits`` the last dimension of outputs counts as classes (a
    single one as a class against none):
    log-probabilities, at least :data:`LEAST_LOG_PROBABILITY` and scaled to [-1, 1], are returned in place of
    logits, which have no bounds. A logit that is no number, of a network that has diverged, counts as 0, and
    an infinite one as the largest there is.
    """

    @abstractmethod
    def made_inputs(self) -> tuple[Tensor, ...]:
        """The inputs, ``(probes, *shape)`` each, within the range of the examples."""

    @torch.no_grad()
    def look(self) -> None:
        """Count the answers."""
        like = next(self.parameters())
        network = {name: like.new_zeros(tensor.shape) for name, tensor in self.spec.tensors.items()}
        parts = self._answer(network, self.made_inputs(), logits=False)
        self.channels = parts.numel()
        if not self.channels:
            raise ValueError("the module's output holds no real numbers, so there is nothing to probe.")

    def forward(self, weights: Mapping[str, Tensor], logits: bool = False) -> Tensor:
        inputs = self.made_inputs()
        answers: Tensor = vmap(lambda network: self._answer(network, inputs, logits))(dict(weights))
        return answers

    def _answer(self, network: Mapping[str, Tensor], inputs: Sequence[Tensor], logits: bool) -> Tensor:
        parts = list(real_parts(self.run(network, inputs)))
        if logits:
            parts = [_log_probabilities(part) for part in parts]
        return (
            torch.cat([part.flatten() for part in parts]) if parts else next(self.parameters()).new_zeros(0)
        )


class SampledProbes(AnsweringModule):
    """What networks answer to learned inputs, which start at samples of the examples, such as images.

    Args:
        module: a network of the architecture; its weights are ignored, it runs in evaluation mode.
        spec: the specification of the weights.
        example_inputs: a tensor, or a tuple of positional inputs, with samples along dimension 0. The inputs
            start at some of them, and stay within their range; integers are not learned.
        probes: number of inputs.

    Raises:
        SpecError: the module has not the tensors that the specification names.
        ValueError: no inputs, or a module whose output holds no real numbers.

    Source: the probing without a generator of Kahana et al. 2024, section 3 (arXiv:2410.10811).
    """

    def __init__(self, module: torch.nn.Module, spec: WeightSpec, example_inputs: Inputs, probes: int = 64):
        super().__init__(module, spec, example_inputs, probes)
        self.start_inputs(example_inputs)
        self.look()

    def made_inputs(self) -> tuple[Tensor, ...]:
        return self.learned_inputs()


def _log_probabilities(logits: Tensor) -> Tensor:
    logits = logits.nan_to_num()
    found = logits.log_softmax(-1) if logits.shape[-1] > 1 else logsigmoid(logits)
    bounded = found.clamp(min=LEAST_LOG_PROBABILITY)
    return 1 - 2 * bounded / LEAST_LOG_PROBABILITY


def real_parts(output: Any) -> Iterator[Tensor]:
    """The floating-point tensors in nested tuples, lists and dicts, in order."""
    if isinstance(output, Tensor):
        if output.is_floating_point():
            yield output
    elif isinstance(output, Mapping):
        for part in output.values():
            yield from real_parts(part)
    elif isinstance(output, tuple | list):
        for part in output:
            yield from real_parts(part)
