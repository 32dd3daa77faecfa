"""Stacked networks of the Small CNN Zoo with a hand-derived gradient."""

from collections.abc import Mapping

import torch
from torch import Tensor

from wsl.zoo.classifiers._dropout import StackedDropout
from wsl.zoo.classifiers._layers import (
    ACTIVATIONS,
    drop,
    pixel_mean,
    pull_pixel_mean,
    stacked_conv,
    stacked_kernel,
    stacked_linear,
)
from wsl.zoo.classifiers._stack import ClassifierStack


class SmallCnnStack(ClassifierStack):
    """Stacked :class:`wsl.models.SmallCNN`."""

    def logits(
        self, parameters: Mapping[str, Tensor], images: Tensor, dropout: StackedDropout | None = None
    ) -> Tensor:
        activation, stride = ACTIVATIONS[self.arguments["activation"]], self.arguments["stride"]
        networks, x = len(parameters["dense.bias"]), images
        for i in range(len(self.arguments["channels"])):
            x = stacked_conv(x, parameters[f"convs.{i}.weight"], parameters[f"convs.{i}.bias"], stride)
            x = drop(activation.apply(x), networks, dropout)
        return stacked_linear(pixel_mean(x, networks), parameters["dense.weight"], parameters["dense.bias"])

    def gradient(self, rows: Tensor, images: Tensor, labels: Tensor, dropout: StackedDropout) -> Tensor:
        """See :meth:`ClassifierStack.gradient`: the same by hand, without a graph.

        The factors of dropout are taken into the weights that follow it, which are few.
        """
        M, B = labels.shape
        activation, layers = ACTIVATIONS[self.arguments["activation"]], len(self.arguments["channels"])
        sides = [self.arguments["stride"]] * 2
        tensors, gradient = self.tensors(rows), torch.empty_like(rows)
        parts = self.tensors(gradient)
        scales = torch.tensor(dropout.scales(M), dtype=rows.dtype).view(M, 1, 1)
        inputs, kernels, before, after, masks = [images], [], [], [], []
        for i in range(layers):
            weight = tensors[f"convs.{i}.weight"]
            kernels.append(stacked_kernel(weight * scales[..., None, None] if i else weight))
            bias = tensors[f"convs.{i}.bias"].flatten()
            before.append(torch.conv2d(inputs[-1], kernels[-1], bias, sides, groups=M))
            after.append(activation.apply(before[-1]))
            masks.append(dropout.dropped(after[-1], M))
            mask = masks[-1]
            inputs.append(after[-1] if mask is None else after[-1].masked_fill(mask, 0))

        means, dense = pixel_mean(inputs[-1], M), tensors["dense.weight"] * scales
        error = stacked_linear(means, dense, tensors["dense.bias"]).softmax(-1)
        error.scatter_add_(2, labels[..., None], error.new_full((M, B, 1), -1)).div_(B)
        torch.mul(error.mT @ means, scales, out=parts["dense.weight"])
        torch.sum(error, 1, out=parts["dense.bias"])
        back = pull_pixel_mean(error @ dense, inputs[-1].shape[2:])
        for i in reversed(range(layers)):
            mask = masks[i]
            back = activation.pull(back if mask is None else back.masked_fill_(mask, 0), before[i], after[i])
            back, kernel, bias = torch.ops.aten.convolution_backward(
                back, inputs[i], kernels[i], [len(kernels[i])], sides, [0, 0], [1, 1], False, [0, 0], M,
                [i > 0, True, True],
            )  # fmt: skip
            weight = parts[f"convs.{i}.weight"]
            kernel = kernel.unflatten(0, weight.shape[:2])
            weight.copy_(kernel * scales[..., None, None] if i else kernel)
            parts[f"convs.{i}.bias"].copy_(bias.view(M, -1))
        return gradient
