"""Any network with a loss and data as a task."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from wsl.learnopt._random import integers, key_of
from wsl.learnopt._types import Tensors
from wsl.learnopt.tasks._initial import Redrawn, draw_parameters
from wsl.learnopt.tasks._task import Task
from wsl.nn import batchable_operators

BATCH = 0x6261746368
SPLITS = ("train", "test")

Pairs = tuple[Tensor, Tensor] | Iterable[tuple[Tensor, Tensor]]
"""Inputs and targets ``(n, ...)``, or batches of them, as :class:`torch.utils.data.DataLoader` gives."""


class ModuleTask(Task):
    """A network that learns targets from inputs: any module, any loss.

    Problems differ in initial parameters and in the order of the data. Each batch is drawn anew from all the
    data, with replacement.

    Args:
        module: the network, or a function that builds it. Lanes start from what its parts'
            ``reset_parameters`` draw, or from what the function builds. It runs in the mode that it is in.
        loss: from outputs and targets to a scalar, such as :func:`torch.nn.functional.cross_entropy`.
        data: what to train on. A loader is read once, and all that it gives is held in memory.
        test: what the split ``test`` draws from; the training data by default.
        batch_size: of both splits.
        ceiling: the largest loss that counts.

    Raises:
        ValueError: a part of the network draws random numbers or keeps running statistics, which depend on
            more than the parameters; or one whose parameters cannot be drawn anew.
    """

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module],
        loss: Callable[[Any, Tensor], Tensor],
        data: Pairs,
        test: Pairs | None = None,
        batch_size: int = 32,
        ceiling: float = 1e6,
    ) -> None:
        self._make = Redrawn(module) if isinstance(module, nn.Module) else module
        network = module if isinstance(module, nn.Module) else module()
        _check_pure(network)
        self._loss, self.batch_size = loss, batch_size
        kinds = nn.RNNBase | nn.RNNCellBase | nn.MultiheadAttention
        self._fused = any(isinstance(part, kinds) for part in network.modules())
        tensors = dict(zip(("train_inputs", "train_targets"), _all_of(data), strict=True))
        if test is not None:
            tensors |= zip(("test_inputs", "test_targets"), _all_of(test), strict=True)
        super().__init__(network, (tensors["train_inputs"][:2],), tensors, ceiling)

    def init(self, seeds: Tensor) -> Tensors:
        return draw_parameters(self._make, seeds, self.module)

    def batch(self, seeds: Tensor, step: Tensor, split: str = "train") -> tuple[Tensor, Tensor]:
        """Inputs and targets ``(L, batch_size, ...)``."""
        check_split(split)
        kept = split if f"{split}_inputs" in self.data else "train"
        inputs, targets = self.data[f"{kept}_inputs"], self.data[f"{kept}_targets"]
        rows = draw_rows(seeds, step, split, self.batch_size, len(inputs))
        return take(inputs, rows), take(targets, rows)

    def loss(self, params: Tensors, batch: tuple[Tensor, Tensor]) -> Tensor:
        inputs, targets = batch
        return self._loss(functional_call(self.module, params, (inputs,)), targets)

    def values(self, params: Tensors, batch: tuple[Tensor, Tensor]) -> Tensor:
        with batchable_operators() if self._fused else nullcontext():
            return super().values(params, batch)


def draw_rows(seeds: Tensor, step: Tensor, split: str, count: int, among: int) -> Tensor:
    """``(L, count)``: rows of the data that a step takes, uniform and independent."""
    return integers(key_of(seeds, BATCH, SPLITS.index(split)), count, among, step * count)


def take(data: Tensor, rows: Tensor) -> Tensor:
    """``data[rows]``, faster."""
    return data.index_select(0, rows.flatten()).view(*rows.shape, *data.shape[1:])


def stacked_layers(params: Tensors, activations: Iterable[nn.Module], inputs: Tensor) -> Tensor:
    """Linear layers ``layers.{i}`` of all lanes, with an activation after each but the last.

    Values of a sample run down the rows: so nothing has to be brought into another order, there and back,
    and a softmax runs over a dimension that is not the last, which is far faster where there are few classes.

    Args:
        inputs: ``(L, n, features)``.

    Returns:
        ``(L, outputs, n)``.
    """
    x = inputs.mT
    for number, activation in enumerate([*activations, None]):
        weight, bias = params[f"layers.{number}.weight"], params[f"layers.{number}.bias"]
        x = torch.baddbmm(bias[..., None], weight, x)
        x = x if activation is None else activation(x)
    return x


def check_split(split: str) -> None:
    """Raises ValueError for a split that there is not."""
    if split not in SPLITS:
        raise ValueError(f"there is no split {split!r}; choose one of {', '.join(SPLITS)}.")


def _all_of(data: Pairs) -> tuple[Tensor, Tensor]:
    pairs: Any = data
    if not (isinstance(data, tuple) and all(isinstance(part, Tensor) for part in data)):
        pairs = (torch.cat(list(parts)) for parts in zip(*data, strict=True))
    inputs, targets = pairs
    if len(inputs) != len(targets) or not len(inputs):
        raise ValueError(f"there are {len(inputs)} inputs and {len(targets)} targets; expected as many.")
    return inputs, targets


def _check_pure(module: nn.Module) -> None:
    for name, part in module.named_modules():
        drops = isinstance(part, _DropoutNd) and part.p > 0
        drops = drops or (isinstance(part, nn.RNNBase | nn.MultiheadAttention) and part.dropout > 0)
        keeps = isinstance(part, _NormBase) and part.track_running_stats
        if part.training and (drops or keeps):
            what = "draws random numbers" if drops else "keeps running statistics"
            raise ValueError(
                f"{name or 'the module'} ({type(part).__name__}) {what}, and the loss of a task is one "
                "of parameters and batch alone. Leave it out, call eval() on it or give it "
                f"{'p=0' if drops else 'track_running_stats=False'}."
            )
