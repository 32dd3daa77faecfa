"""Trains the networks of a stack and describes their checkpoints."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._layout import STORED_DTYPES
from wsl.zoo.training._metrics import Metrics
from wsl.zoo.training._plan import P


class Stack(Protocol):
    """Computes with many networks of one architecture, the rows of a matrix."""

    def tensors(self, rows: Tensor) -> dict[str, Tensor]:
        """Views of the columns of ``(M, P)``: name -> ``(M, *shape)``."""


S = TypeVar("S", bound=Stack)
S_co = TypeVar("S_co", bound=Stack, covariant=True)


class PopulationArchitecture(Protocol[S_co]):
    """The architectures that networks of a zoo are drawn from."""

    def stack(self, forward: ForwardDefinition) -> S_co:
        """Computes with many networks of one of these architectures at once."""

    def columns(self, forward: ForwardDefinition) -> dict[str, Any]:
        """Metadata of a network of this architecture; the same columns for all."""


class TrainedStack(NamedTuple):
    """Weights and metadata of the checkpoints of a stack, network by network, and each network's quality."""

    weights: Mapping[str, Tensor]
    columns: Mapping[str, Any]
    quality: np.ndarray


class Description(NamedTuple):
    """Of the checkpoints of one network: metrics, and more metadata, one value for all or a list."""

    on_train: Metrics
    on_test: Metrics
    columns: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class StackTraining(ABC, Generic[P, S]):
    """Trains stacks and describes their checkpoints; it pickles.

    Args:
        architecture: of the networks.
        evaluated: examples at most for each loss and accuracy; None for all.
        dtype: in which weights are stored.
    """

    architecture: PopulationArchitecture[S]
    evaluated: int | None
    dtype: str
    quality: ClassVar[str]
    """The column that tells, in the progress bar, how good networks are at their ends."""

    @abstractmethod
    def rows(self, stack: S, plans: Sequence[P], advance: Callable[[int], None]) -> list[Tensor]:
        """Train networks of one stack: for each its checkpoints ``(n, P)``.

        Args:
            advance: called now and then with the number of new examples.
        """

    @abstractmethod
    def describe(self, stack: S, plan: P, rows: Tensor) -> Description:
        """Evaluate the checkpoints ``(n, P)`` of one network."""

    def train(self, plans: Sequence[P], advance: Callable[[int], None]) -> TrainedStack:
        """Train and describe networks of one stack, see :class:`Population`."""
        stack = self.architecture.stack(plans[0].forward)
        trained = self.rows(stack, plans, advance)
        columns: dict[str, list[Any]] = {}
        last = []
        for plan, rows in zip(plans, trained, strict=True):
            for name, values in self._columns(plan, rows, self.describe(stack, plan, rows)).items():
                columns.setdefault(name, []).extend(values)
            last.append(columns[self.quality][-1])
            advance(0)
        return TrainedStack(stack.tensors(torch.cat(trained)), columns, np.array(last))

    def _columns(self, plan: P, rows: Tensor, description: Description) -> dict[str, Any]:
        """Metadata of all checkpoints of one network."""
        on_train, on_test, further = description
        finite = finite_rows(rows, self.dtype) & np.isfinite(on_train.loss) & np.isfinite(on_test.loss)
        given = {"model": plan.model, **self.architecture.columns(plan.forward), **further}
        given |= asdict(plan.hyperparameters)
        columns = {
            name: value if isinstance(value, list) else [value] * len(rows) for name, value in given.items()
        }
        return columns | {
            "step": list(plan.stored),
            "train_loss": on_train.loss,
            "train_accuracy": on_train.accuracy,
            "test_loss": on_test.loss,
            "test_accuracy": on_test.accuracy,
            "diverged": (~finite).astype(np.int64),
        }


def finite_rows(rows: Tensor, dtype: str) -> np.ndarray:
    """``(M,)``: whether all values of a row ``(M, P)`` are finite in the type in which they are stored."""
    with np.errstate(over="ignore"):
        finite: np.ndarray = np.isfinite(rows.numpy().astype(STORED_DTYPES[dtype])).all(1)
    return finite
