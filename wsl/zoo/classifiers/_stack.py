"""Many classifiers of one architecture as one matrix, a row a network, and what training needs of them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.training import StackedDropout


class ClassifierStack(ABC):
    """Computes with M networks at once, the rows of an ``(M, P + Q)`` matrix.

    A row holds P parameters in the order of ``named_parameters`` and Q values of float buffers, such as
    running statistics, in the order of ``named_buffers``.

    Args:
        forward: builds one of the networks.
    """

    def __init__(self, forward: ForwardDefinition) -> None:
        module = forward.build()
        stored = module.state_dict()
        self.arguments = dict(forward.arguments)
        self.shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
        self.buffers = {
            name: buffer
            for name, buffer in module.named_buffers()
            if name in stored and buffer.is_floating_point()
        }
        self.parameters = sum(map(math.prod, self.shapes.values()))

    @abstractmethod
    def logits(
        self, tensors: Mapping[str, Tensor], images: Tensor, dropout: StackedDropout | None = None
    ) -> Tensor:
        """Outputs ``(M, B, classes)``.

        Args:
            tensors: parameters and buffers, name -> ``(M, *shape)``. In training the buffers change in place.
            images: as :meth:`batch` makes them.
            dropout: after each hidden activation; None when networks are evaluated.
        """

    def batch(self, pixels: Tensor, taken: np.ndarray) -> Tensor:
        """What :meth:`logits` takes of images ``(n, H, W, C)``, by their rows ``(M, B)``.

        Unless a stack chooses another layout: ``(B, M * C, H, W)``, channels last in memory.
        """
        M, B = taken.shape
        H, W, C = pixels.shape[1:]
        batch = pixels[torch.from_numpy(taken.T.copy()).flatten()].view(B, M, H * W, C)
        return batch.transpose(1, 2).reshape(B, H, W, M * C).contiguous().permute(0, 3, 1, 2)

    def tensors(self, rows: Tensor) -> dict[str, Tensor]:
        """Views of the columns of ``(M, P + Q)``, or of the first P: name -> ``(M, *shape)``."""
        shapes = dict(self.shapes)
        if rows.shape[1] > self.parameters:
            shapes |= {name: tuple(buffer.shape) for name, buffer in self.buffers.items()}
        parts = rows.split([math.prod(shape) for shape in shapes.values()], dim=1)
        return {
            name: part.unflatten(1, shape) if shape else part[:, 0]
            for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }

    def gradient(self, rows: Tensor, images: Tensor, labels: Tensor, dropout: StackedDropout) -> Tensor:
        """``(M, P)``: gradient of each network's mean cross-entropy; it depends on the network's row alone.

        Args:
            rows: ``(M, P + Q)``; the buffers in it are brought up to date.
            images, dropout: as in :meth:`logits`.
            labels: ``(M, B)``.
        """
        # Copies: autograd would see buffers that change in place as a change of the whole matrix.
        leaves = self.tensors(rows[:, : self.parameters].clone())
        for leaf in leaves.values():
            leaf.requires_grad_()
        with torch.enable_grad():
            outputs = self.logits({**self.tensors(rows), **leaves}, images, dropout)
            loss = F.cross_entropy(outputs.flatten(0, 1), labels.flatten(), reduction="sum")
            parts = torch.autograd.grad(loss / labels.shape[1], list(leaves.values()), materialize_grads=True)
        return torch.cat([part.flatten(1) for part in parts], dim=1)
