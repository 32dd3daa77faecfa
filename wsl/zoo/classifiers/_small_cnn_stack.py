"""Stacked networks of the Small CNN Zoo as batched matrix products, with a hand-derived gradient.

Feature maps are ``(M, C, H, W, B)``: with the images of a batch side by side in memory, the pixels that a
kernel sees are copied in long runs, and all products have long rows.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.classifiers._layers import ACTIVATIONS
from wsl.zoo.classifiers._stack import ClassifierStack
from wsl.zoo.classifiers._workspace import Workspace
from wsl.zoo.training import StackedDropout


class _Layer(NamedTuple):
    """What a convolution computed, as its gradient needs it; feature maps are ``(M, O, h, w, B)``."""

    kernel: Tensor
    """``(M, O, C * k * k + 1)``: weights, with the factor of the dropout before them, and biases."""
    windows: Tensor
    """``(M, C * k * k + 1, h, w, B)``: what the kernels see, and ones for the biases."""
    before: Tensor
    after: Tensor
    """The activation's input, where that is kept, and its output after dropout."""
    kept: Tensor | None
    """1 where dropout keeps a value, else 0."""


class SmallCnnStack(ClassifierStack):
    """Stacked :class:`wsl.models.SmallCNN`. Nothing that it computes has a graph of autograd."""

    def __init__(self, forward: ForwardDefinition) -> None:
        super().__init__(forward)
        self._activation = ACTIVATIONS[self.arguments["activation"]]
        self._space = Workspace()

    def batch(self, pixels: Tensor, taken: np.ndarray) -> Tensor:
        """Images ``(M, C, H, W, B)``."""
        M, B = taken.shape
        H, W, C = pixels.shape[1:]
        images = self._space.take("images", (M, H * W * C, B), pixels)
        for image, rows in zip(images, torch.from_numpy(taken.copy()), strict=True):
            image.copy_(pixels[rows].flatten(1).T)
        return images.view(M, H, W, C, B).movedim(3, 1).contiguous()

    def logits(
        self, tensors: Mapping[str, Tensor], images: Tensor, dropout: StackedDropout | None = None
    ) -> Tensor:
        return self._forward(tensors, images, dropout)[1].mT.clone()

    def gradient(self, rows: Tensor, images: Tensor, labels: Tensor, dropout: StackedDropout) -> Tensor:
        """See :meth:`ClassifierStack.gradient`: the same by hand.

        The factors of dropout are taken into the weights that follow it, which are few.
        """
        M, B = labels.shape
        tensors, gradient = self.tensors(rows), torch.empty_like(rows)
        layers, outputs = self._forward(tensors, images, dropout)
        parts, scales = self.tensors(gradient), dropout.scales(M, rows.dtype).view(M, 1, 1)

        error = outputs.softmax(1)
        error.scatter_add_(1, labels[:, None], error.new_full((M, 1, B), -1)).div_(B)
        x = layers[-1].after
        torch.mul(error @ x.mean((2, 3)).mT, scales, out=parts["dense.weight"])
        torch.sum(error, 2, out=parts["dense.bias"])
        pulled = ((tensors["dense.weight"] * scales).mT @ error).div_(x.shape[2] * x.shape[3])
        back = self._space.take("back", x.shape, x).copy_(pulled[:, :, None, None])
        for i, layer in reversed(list(enumerate(layers))):
            if layer.kept is not None and not self._activation.closed:
                back.mul_(layer.kept)
            back = self._activation.pull(back, layer.before, layer.after).flatten(2)
            kernel = back @ layer.windows.flatten(2).mT
            weight = parts[f"convs.{i}.weight"]
            torch.mul(kernel[..., :-1].view_as(weight), scales[..., None, None] if i else 1, out=weight)
            parts[f"convs.{i}.bias"].copy_(kernel[..., -1])
            if i:
                back = self._pull_windows(layer, back, layers[i - 1].after.shape)
        return gradient

    def _forward(
        self, tensors: Mapping[str, Tensor], images: Tensor, dropout: StackedDropout | None
    ) -> tuple[list[_Layer], Tensor]:
        """All layers, and outputs ``(M, classes, B)``; the next call overwrites the layers."""
        x, layers, networks = images, list[_Layer](), len(tensors["dense.bias"])
        drops = dropout is not None and dropout.drops(networks)
        scales: Tensor | float = dropout.scales(networks, x.dtype)[:, None, None] if dropout else 1.0
        for i in range(len(self.arguments["channels"])):
            weight, bias = tensors[f"convs.{i}.weight"].flatten(2), tensors[f"convs.{i}.bias"]
            kernel = torch.cat([weight * scales if i else weight, bias[..., None]], 2)
            windows = self._windows(i, x)
            before = self._space.take(f"maps {i}", (*kernel.shape[:2], *windows.shape[2:]), x)
            torch.bmm(kernel, windows.flatten(2), out=before.flatten(2))
            x, kept = self._activation.apply(before), None
            if dropout is not None and drops:
                kept = self._space.take(f"kept {i}", x.shape, x).copy_(dropout.kept(networks, x.shape[1:]))
                x.mul_(kept)
            layers.append(_Layer(kernel, windows, before, x, kept))
        dense = tensors["dense.weight"] * scales
        return layers, torch.baddbmm(tensors["dense.bias"][..., None], dense, x.mean((2, 3)))

    def _windows(self, layer: int, x: Tensor) -> Tensor:
        """``(M, C, H, W, B)`` to ``(M, C * k * k + 1, h, w, B)``, see :class:`_Layer`."""
        k, s = self.arguments["kernel_size"], self.arguments["stride"]
        seen = x.unfold(2, k, s).unfold(3, k, s)
        M, C, h, w, B = seen.shape[:5]
        windows = self._space.take(f"windows {layer}", (M, C * k * k + 1, h, w, B), x)
        windows[:, :-1].unflatten(1, (C, k, k)).copy_(seen.movedim((5, 6), (2, 3)))
        windows[:, -1].fill_(1)
        return windows

    def _pull_windows(self, layer: _Layer, back: Tensor, shape: torch.Size) -> Tensor:
        """From gradients of a convolution's outputs ``(M, O, h * w * B)`` to those of its inputs."""
        k, s = self.arguments["kernel_size"], self.arguments["stride"]
        M, rows, h, w, B = layer.windows.shape
        windows = self._space.take("pulled", (M, rows - 1, h * w * B), back)
        torch.bmm(layer.kernel[..., :-1].mT, back, out=windows)
        windows = windows.view(M, -1, k, k, h, w, B)
        maps = self._space.take("back", shape, back).zero_()
        for i in range(k):
            for j in range(k):
                maps[:, :, i : i + s * h : s, j : j + s * w : s].add_(windows[:, :, i, j])
        return maps
