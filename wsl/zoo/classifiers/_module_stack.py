"""Stacked networks of any module."""

from collections import deque
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.classifiers._stack import ClassifierStack
from wsl.zoo.training import StackedDropout


class ModuleStack(ClassifierStack):
    """Stacked networks of any module that takes images ``(B, C, H, W)``, by :func:`torch.func.vmap`.

    Running statistics of batch normalisation are each network's own. ``nn.Dropout`` modules take the
    probability and the random stream of each network; torch refuses other randomness.

    Args:
        forward: builds one of the networks.
    """

    def __init__(self, forward: ForwardDefinition) -> None:
        super().__init__(forward)
        self._module = forward.build()
        self._factors, self._inputs = deque[Tensor](), list[torch.Size]()
        for name, module in list(self._module.named_modules()):
            if isinstance(module, nn.Dropout):
                self._module.set_submodule(name, _Dropout(self._factors, self._inputs))
        self._shapes: list[torch.Size] | None = None

    def batch(self, pixels: Tensor, taken: np.ndarray) -> Tensor:
        """Images ``(M, B, C, H, W)``."""
        return pixels[torch.from_numpy(taken.copy())].movedim(-1, 2).contiguous()

    def logits(
        self, tensors: Mapping[str, Tensor], images: Tensor, dropout: StackedDropout | None = None
    ) -> Tensor:
        factors = [] if dropout is None else self._drawn(tensors, images, dropout)
        # Running statistics change in place: contiguous ones that share no memory with what autograd keeps.
        buffers = {name: tensors[name].clone(memory_format=torch.contiguous_format) for name in self.buffers}
        self._module.train(dropout is not None)
        outputs: Tensor = vmap(self._run)({**tensors, **buffers}, images, factors)
        if dropout is not None:
            for name, buffer in buffers.items():
                tensors[name].copy_(buffer)
        return outputs

    def _run(self, tensors: Mapping[str, Tensor], x: Tensor, factors: list[Tensor]) -> Tensor:
        """Outputs of one network."""
        self._inputs.clear()
        self._factors.extend(factors)
        outputs: Tensor = functional_call(self._module, dict(tensors), (x,))
        assert not self._factors
        return outputs

    def _drawn(self, tensors: Mapping[str, Tensor], x: Tensor, dropout: StackedDropout) -> list[Tensor]:
        """Factors of the inputs of all dropout modules, in the order of their calls: each ``(M, B, ...)``."""
        M, B = x.shape[:2]
        if not dropout.drops(M):
            return []
        if self._shapes is None:
            with torch.no_grad():
                self._module.eval()
                self._run({name: tensor[0] for name, tensor in tensors.items()}, x[0], [])
            self._shapes = [shape[1:] for shape in self._inputs]
        return [dropout.factors(M, (B, *shape), x.dtype) for shape in self._shapes]


class _Dropout(nn.Module):
    """Notes the shape of its input and multiplies it by the next of the factors, if there are any."""

    def __init__(self, factors: deque[Tensor], inputs: list[torch.Size]) -> None:
        super().__init__()
        self._factors, self._inputs = factors, inputs

    def forward(self, x: Tensor) -> Tensor:
        self._inputs.append(x.shape)
        return x * self._factors.popleft() if self._factors else x
