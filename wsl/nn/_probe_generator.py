"""Generated probes: what networks answer to inputs that a deep linear generator makes."""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from wsl.nn._answers import AnsweringModule
from wsl.nn._autocast import autocast_to
from wsl.nn._probed_module import Inputs, drawn_samples, example_tuple
from wsl.spec import WeightSpec


class GeneratedProbes(AnsweringModule):
    """What networks answer to inputs that a deep linear generator makes, the same for all.

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

    Shapes: as of :class:`AnsweringModule`.

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

    def made_inputs(self) -> tuple[Tensor, ...]:
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
