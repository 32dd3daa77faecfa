"""Generated probes: what networks answer to inputs that a deep linear generator makes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap

from wsl.nn._autocast import autocast_to
from wsl.nn._probed_module import Inputs, ProbedModule, drawn_samples, example_tuple
from wsl.spec import WeightSpec


class GeneratedProbes(ProbedModule):
    """Runs every network on the same generated inputs, and returns its answers.

    The inputs come from learned latent vectors, one for each probe, by a generator that is shared by all of
    them: linear layers without activations in between, which bias probes towards common structure. Images get
    transposed convolutions, other inputs matrices. Answers are invariant to whatever leaves the function of a
    network unchanged. Inputs of integers are not made: samples of the examples are used as they are.

    Args:
        module: a network of the architecture; its weights are ignored, it runs in evaluation mode.
        spec: the specification of the weights.
        example_inputs: a tensor, or a tuple of positional inputs, with samples along dimension 0. Inputs are
            made within the range of these samples (of each feature or channel, if there are several).
        probes: number of inputs.
        latent: width of the latent vectors.
        width: channels of the generator of images before its last layer.

    Shapes: weights ``(B, *shape)``, raw, to ``(B, channels)``: all real numbers of the module's output for
    all probes; ``channels`` says how many.

    Raises:
        SpecError: the module has not the tensors that the specification names.
        ValueError: no inputs, no latent width, or a module whose output holds no real numbers.

    Source: Kahana et al. 2024, section 4 (arXiv:2410.10811). Deviates: the range of inputs is that of the
    examples, coordinates included; images of any size.
    """

    def __init__(
        self,
        module: nn.Module,
        spec: WeightSpec,
        example_inputs: Inputs,
        probes: int = 64,
        *,
        latent: int = 32,
        width: int = 16,
    ) -> None:
        super().__init__(module, spec, example_inputs, probes)
        if latent < 1 or width < 1:
            raise ValueError(f"a generator needs channels, got latent={latent}, width={width}.")
        self.latents = nn.Parameter(torch.randn(probes, latent))
        self.generators = nn.ModuleList()
        for i, x in enumerate(example_tuple(example_inputs)):
            if x.is_floating_point():
                shape = x.shape[1:]
                images = len(shape) == 3
                self.generators.append(_Images(shape, latent, width) if images else _Vectors(shape, latent))
            else:
                self.generators.append(nn.Identity())
                samples = drawn_samples(x, probes, *self.bounds(i), None)
                self.register_buffer(f"samples{i}", samples)
        self.look()

    @torch.no_grad()
    def look(self) -> None:
        """Count the answers."""
        like = self.latents
        network = {name: like.new_zeros(tensor.shape) for name, tensor in self.spec.tensors.items()}
        self.channels = self._answer(network, self.generated_inputs()).numel()
        if not self.channels:
            raise ValueError("the module's output holds no real numbers, so there is nothing to probe.")

    def generated_inputs(self) -> tuple[Tensor, ...]:
        """The inputs, ``(probes, *shape)`` each, within the range of the examples."""
        made = []
        for i, generator in enumerate(self.generators):
            if isinstance(generator, nn.Identity):
                made.append(self.get_buffer(f"samples{i}"))
            else:
                low, high = self.bounds(i)
                with autocast_to(self.latents, None):
                    share = (generator(self.latents).tanh() + 1) / 2
                made.append(low + (high - low) * share)
        return tuple(made)

    def forward(self, weights: Mapping[str, Tensor]) -> Tensor:
        inputs = self.generated_inputs()
        answers: Tensor = vmap(lambda network: self._answer(network, inputs))(dict(weights))
        return answers

    def _answer(self, network: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        parts = [part.flatten() for part in _real_parts(self.run(network, inputs))]
        return torch.cat(parts) if parts else self.latents[0, :0]


class _Images(nn.Module):
    """Latent vectors to images by transposed convolutions that double the size, cut to the size wanted."""

    def __init__(self, shape: torch.Size, latent: int, width: int) -> None:
        super().__init__()
        channels, *self.sizes = shape
        doublings = max(0, math.ceil(math.log2(max(self.sizes) / 4)))
        widths = [width * 2 ** min(i, 3) for i in reversed(range(doublings + 1))]
        stack: list[nn.Module] = [nn.ConvTranspose2d(latent, widths[0], 4)]
        for before, after in pairwise(widths):
            stack.append(nn.ConvTranspose2d(before, after, 4, stride=2, padding=1))
        self.layers = nn.Sequential(*stack, nn.Conv2d(width, channels, 3, padding=1))

    def forward(self, latents: Tensor) -> Tensor:
        images: Tensor = self.layers(latents[..., None, None])
        return images[..., : self.sizes[0], : self.sizes[1]]


class _Vectors(nn.Module):
    """Latent vectors to inputs of any shape by two matrices."""

    def __init__(self, shape: torch.Size, latent: int) -> None:
        super().__init__()
        self.shape = shape
        self.layers = nn.Sequential(nn.Linear(latent, latent), nn.Linear(latent, math.prod(shape)))

    def forward(self, latents: Tensor) -> Tensor:
        vectors: Tensor = self.layers(latents)
        return vectors.reshape(len(latents), *self.shape)


def _real_parts(output: Any) -> Iterator[Tensor]:
    """The floating-point tensors in nested tuples, lists and dicts, in order."""
    if isinstance(output, Tensor):
        if output.is_floating_point():
            yield output
    elif isinstance(output, Mapping):
        for part in output.values():
            yield from _real_parts(part)
    elif isinstance(output, tuple | list):
        for part in output:
            yield from _real_parts(part)
