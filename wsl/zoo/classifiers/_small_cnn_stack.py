"""Stacked networks of the Small CNN Zoo as batched matrix products, with a hand-derived gradient.

Feature maps are ``(M, C, H, W, B)``: with the images of a batch side by side in memory, the pixels that a
kernel sees are copied in long runs, and all products have long rows.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from wsl.zoo.classifiers._layers import ACTIVATIONS
from wsl.zoo.classifiers._stack import ClassifierStack
from wsl.zoo.training import StackedDropout


class SmallCnnStack(ClassifierStack):
    """Stacked :class:`wsl.models.SmallCNN`."""

    def batch(self, pixels: Tensor, taken: np.ndarray) -> Tensor:
        """Images ``(M, C, H, W, B)``."""
        M, B = taken.shape
        images = pixels.new_empty(M, pixels[0].numel(), B)
        for image, rows in zip(images, torch.from_numpy(taken.copy()), strict=True):
            image.copy_(pixels[rows].flatten(1).T)
        return images.view(M, *pixels.shape[1:], B).movedim(3, 1).contiguous()

    def logits(
        self, tensors: Mapping[str, Tensor], images: Tensor, dropout: StackedDropout | None = None
    ) -> Tensor:
        activation, x = ACTIVATIONS[self.arguments["activation"]], images
        for i in range(len(self.arguments["channels"])):
            weight = tensors[f"convs.{i}.weight"]
            windows = self._windows(x)
            kernel = _kernel(weight, tensors[f"convs.{i}.bias"])
            x = activation.apply(torch.bmm(kernel, windows.flatten(2)).unflatten(2, windows.shape[2:]))
            if dropout is not None and dropout.drops(len(x)):
                x = x * dropout.factors(len(x), x.shape[1:], x.dtype)
        bias = tensors["dense.bias"][..., None]
        return torch.baddbmm(bias, tensors["dense.weight"], x.mean((2, 3))).mT

    def gradient(self, rows: Tensor, images: Tensor, labels: Tensor, dropout: StackedDropout) -> Tensor:
        """See :meth:`ClassifierStack.gradient`: the same by hand, without a graph.

        The factors of dropout are taken into the weights that follow it, which are few.
        """
        M, B = labels.shape
        activation, layers = ACTIVATIONS[self.arguments["activation"]], len(self.arguments["channels"])
        tensors, gradient = self.tensors(rows), torch.empty_like(rows)
        parts, drops = self.tensors(gradient), dropout.drops(M)
        scales = dropout.scales(M, rows.dtype).view(M, 1, 1)
        x, windows, kernels, before, after, masks = images, [], [], [], [], []
        for i in range(layers):
            weight, bias = tensors[f"convs.{i}.weight"], tensors[f"convs.{i}.bias"]
            kernels.append(_kernel(weight, bias, scales if i and drops else None))
            windows.append(self._windows(x))
            before.append(torch.bmm(kernels[-1], windows[-1].flatten(2)).unflatten(2, windows[-1].shape[2:]))
            x = activation.apply(before[-1])
            if drops:
                masks.append(dropout.dropped(M, x.shape[1:]))
                x.masked_fill_(masks[-1], 0)
            after.append(x)

        means, dense = x.mean((2, 3)), tensors["dense.weight"] * scales
        error = torch.baddbmm(tensors["dense.bias"][..., None], dense, means).softmax(1)
        error.scatter_add_(1, labels[:, None], error.new_full((M, 1, B), -1)).div_(B)
        torch.mul(error @ means.mT, scales, out=parts["dense.weight"])
        torch.sum(error, 2, out=parts["dense.bias"])
        pixels = x.shape[2] * x.shape[3]
        back = (dense.mT @ error).div_(pixels)[:, :, None, None].expand(x.shape)
        for i in reversed(range(layers)):
            if drops:
                back = back.masked_fill(masks[i], 0)
            back = activation.pull(back, before[i], after[i]).flatten(2)
            kernel = back @ windows[i].flatten(2).mT
            weight = parts[f"convs.{i}.weight"]
            weight.copy_(kernel[..., :-1].unflatten(2, weight.shape[2:]))
            if i and drops:
                weight.mul_(scales[..., None, None])
            parts[f"convs.{i}.bias"].copy_(kernel[..., -1])
            if i:
                pulled = kernels[i][..., :-1].mT @ back
                back = self._fold(pulled.view(M, *weight.shape[2:], *windows[i].shape[2:]), after[i - 1])
        return gradient

    def _windows(self, x: Tensor) -> Tensor:
        """``(M, C, H, W, B)`` to ``(M, C * k * k + 1, h, w, B)``: what kernels see, and ones for biases."""
        k, s = self.arguments["kernel_size"], self.arguments["stride"]
        seen = x.unfold(2, k, s).unfold(3, k, s)
        M, C, h, w, B = seen.shape[:5]
        windows = x.new_empty(M, C * k * k + 1, h, w, B)
        windows[:, :-1].unflatten(1, (C, k, k)).copy_(seen.movedim((5, 6), (2, 3)))
        windows[:, -1].fill_(1)
        return windows

    def _fold(self, windows: Tensor, like: Tensor) -> Tensor:
        """The transpose of :meth:`_windows`: ``(M, C, k, k, h, w, B)`` to the shape of ``like``."""
        s, (h, w) = self.arguments["stride"], windows.shape[4:6]
        maps = torch.zeros_like(like)
        for i in range(windows.shape[2]):
            for j in range(windows.shape[3]):
                maps[:, :, i : i + s * h : s, j : j + s * w : s].add_(windows[:, :, i, j])
        return maps


def _kernel(weight: Tensor, bias: Tensor, scales: Tensor | None = None) -> Tensor:
    """Weights ``(M, O, C, k, k)`` and biases ``(M, O)`` as a matrix ``(M, O, C * k * k + 1)``."""
    flat = weight.flatten(2)
    return torch.cat([flat if scales is None else flat * scales, bias[..., None]], dim=2)
