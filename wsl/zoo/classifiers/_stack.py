"""Many classifiers of one architecture as one matrix, a row a network, and what training needs of them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.classifiers._dropout import StackedDropout


class ClassifierStack(ABC):
    """Computes with M networks at once, whose parameters are the rows of an ``(M, P)`` matrix.

    Args:
        forward: builds one of the networks, whose parameters come in the order of ``named_parameters``.
    """

    def __init__(self, forward: ForwardDefinition) -> None:
        self.arguments = dict(forward.arguments)
        self.shapes = {name: tuple(parameter.shape) for name, parameter in forward.build().named_parameters()}

    @abstractmethod
    def logits(
        self, parameters: Mapping[str, Tensor], images: Tensor, dropout: StackedDropout | None = None
    ) -> Tensor:
        """Outputs ``(M, B, classes)``.

        Args:
            parameters: name -> ``(M, *shape)``.
            images: ``(B, M * C, H, W)``, channels last in memory: the b-th image of each network.
            dropout: after each hidden activation; None when networks are evaluated.
        """

    def tensors(self, rows: Tensor) -> dict[str, Tensor]:
        """Views of the columns of ``(M, P)``: name -> ``(M, *shape)``."""
        parts = rows.split([math.prod(shape) for shape in self.shapes.values()], dim=1)
        return {
            name: part.unflatten(1, shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def gradient(self, rows: Tensor, images: Tensor, labels: Tensor, dropout: StackedDropout) -> Tensor:
        """``(M, P)``: gradient of each network's mean cross-entropy; it depends on the network's row alone.

        Args:
            images, dropout: as in :meth:`logits`.
            labels: ``(M, B)``.
        """
        leaf = rows.detach().requires_grad_()
        with torch.enable_grad():
            outputs = self.logits(self.tensors(leaf), images, dropout)
            loss = F.cross_entropy(outputs.flatten(0, 1), labels.flatten(), reduction="sum")
            return torch.autograd.grad(loss / labels.shape[1], leaf)[0]
