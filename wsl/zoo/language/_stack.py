"""Many language models of one architecture as one matrix, a row a network, and what training needs."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor

from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.training import StackedDropout


class LanguageStack(ABC):
    """Computes with M networks at once, whose parameters are the rows of an ``(M, P)`` matrix.

    Each network ends in a linear layer called ``head``.

    Args:
        forward: builds one of the networks, whose parameters come in the order of ``named_parameters``.
    """

    def __init__(self, forward: ForwardDefinition) -> None:
        self.arguments = dict(forward.arguments)
        self.shapes = {name: tuple(parameter.shape) for name, parameter in forward.build().named_parameters()}

    @abstractmethod
    def arrange(self, tokens: Tensor) -> Tensor:
        """``(M, B, L)`` in the layout that :meth:`features` takes: M networks first, three dimensions."""

    @abstractmethod
    def features(
        self, parameters: Mapping[str, Tensor], tokens: Tensor, dropout: StackedDropout | None = None
    ) -> Tensor:
        """What ``head`` reads of each character: ``(M, N, D)``, in the order of the tokens.

        Args:
            parameters: name -> ``(M, *shape)``.
            tokens: as :meth:`arrange` gives them, N of each network.
            dropout: None when networks are evaluated.
        """

    def tensors(self, rows: Tensor) -> dict[str, Tensor]:
        """Views of the columns of ``(M, P)``: name -> ``(M, *shape)``."""
        parts = rows.split([math.prod(shape) for shape in self.shapes.values()], dim=1)
        return {
            name: part.unflatten(1, shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def logits(self, parameters: Mapping[str, Tensor], tokens: Tensor) -> Tensor:
        """Outputs ``(M, N, vocabulary)`` for tokens as :meth:`features` takes them."""
        read = self.features(parameters, tokens)
        return stacked_linear(read, parameters["head.weight"], parameters["head.bias"])

    def gradient(self, rows: Tensor, sequences: Tensor, dropout: StackedDropout) -> Tensor:
        """``(M, P)``: gradient of each network's mean cross-entropy; it depends on the network's row alone.

        Args:
            sequences: ``(M, B, L + 1)``; the network reads all but the last, and tells all but the first.
        """
        parameters = {name: part.detach().requires_grad_() for name, part in self.tensors(rows).items()}
        tokens = self.arrange(sequences[..., :-1])
        wanted = self.arrange(sequences[..., 1:]).flatten(1)[..., None]
        weight = parameters.pop("head.weight").detach()
        bias = parameters.pop("head.bias").detach()
        with torch.enable_grad():
            read = self.features(parameters, tokens, dropout)
        seen = read.detach()
        error = stacked_linear(seen, weight, bias).softmax(-1)
        error.scatter_add_(2, wanted, error.new_full(wanted.shape, -1)).div_(wanted.shape[1])
        found = dict(
            zip(
                parameters,
                torch.autograd.grad(read, list(parameters.values()), error @ weight),
                strict=True,
            )
        )
        found |= {"head.weight": error.mT @ seen, "head.bias": error.sum(1)}
        return torch.cat([found[name].flatten(1) for name in self.shapes], dim=1)


def stacked_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``(M, N, I)``, ``(M, O, I)`` and ``(M, O)`` to ``(M, N, O)``."""
    return torch.baddbmm(bias[:, None], x, weight.mT)


def stacked_rows(table: Tensor, tokens: Tensor) -> Tensor:
    """Rows of each network's table ``(M, V, D)`` by its tokens ``(M, ...)``: ``(M, ..., D)``."""
    M, V, D = table.shape
    places = tokens + torch.arange(M, device=tokens.device).view(M, *(1 for _ in tokens.shape[1:])) * V
    return table.flatten(0, 1).index_select(0, places.flatten()).view(*tokens.shape, D)
