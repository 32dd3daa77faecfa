"""`Estimator`: what every estimator of meta-gradients shares, and its state."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Generator, Tensor

from wsl.learnopt._lanes import Lanes
from wsl.learnopt._types import Tensors
from wsl.learnopt.estimators._objective import Objective
from wsl.learnopt.optimizers import Optimizer
from wsl.learnopt.tasks import Task, TaskFamily


@dataclass
class LaneGroup:
    """Lanes on one task of a family, between two meta-steps.

    Attributes:
        task: index in the family; 0 of a single task.
        lanes: where their trainings are.
        first: the first loss of each lane ``(L,)``.
        noise: sums of the perturbations that each pair has seen, ``(P, *shape)`` by parameter (PES).
    """

    task: int
    lanes: Lanes
    first: Tensor
    noise: Tensors = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Tensors, strings and numbers, as checkpoints hold them."""
        return {"task": self.task, "lanes": dict(vars(self.lanes)), "first": self.first, "noise": self.noise}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "LaneGroup":
        """Inverse of :meth:`to_dict`."""
        return cls(stored["task"], Lanes(**stored["lanes"]), stored["first"], dict(stored["noise"]))


@dataclass
class EstimatorState:
    """The lanes of every task; none for estimators that begin anew in each meta-step."""

    groups: list[LaneGroup] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Tensors, strings and numbers, as checkpoints hold them."""
        return {"groups": [group.to_dict() for group in self.groups]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "EstimatorState":
        """Inverse of :meth:`to_dict`."""
        return cls([LaneGroup.from_dict(group) for group in stored["groups"]])


class Estimator(ABC):
    """Estimates the gradient of the meta-loss with respect to the parameters of an optimizer.

    All lanes of a task advance together; the gradients of several tasks are averaged by their lanes, for
    optimizers whose parameters do not depend on the architecture.
    """

    objective: Objective

    @abstractmethod
    def start(self, optimizer: Optimizer, task: Task | TaskFamily, generator: Generator) -> EstimatorState:
        """The state before the first meta-step."""

    @abstractmethod
    def estimate(
        self, optimizer: Optimizer, task: Task | TaskFamily, state: EstimatorState, generator: Generator
    ) -> tuple[Tensors, EstimatorState, dict[str, float]]:
        """One meta-step; neither the optimizer nor ``state`` changes.

        Returns:
            The gradient by parameter name, the state after it, and figures: ``loss``, the meta-loss;
            ``diverged`` and ``ended``, lanes that began another problem because they had to or because they
            were done; ``update_norm``, the norm of the last inner update as a share of the parameters' norm,
            averaged over lanes; ``dropped``, lanes whose gradient was not finite and counts as zero.
        """


def meta_parameters(optimizer: Optimizer) -> Tensors:
    """The parameters that are meta-learned, by name, detached.

    Raises:
        ValueError: there is none.
    """
    found = {name: p.detach() for name, p in optimizer.named_parameters() if p.requires_grad}
    if not found:
        raise ValueError(
            f"{type(optimizer).__name__} has no parameter that requires a gradient, so there is nothing to "
            "meta-learn."
        )
    return found


def check_positive(estimator: Estimator, *names: str) -> None:
    """Raise ValueError if one of these attributes is not above 0."""
    for name in names:
        if not getattr(estimator, name) > 0:
            raise ValueError(
                f"{type(estimator).__name__}: {name} is {getattr(estimator, name)}; expected one above 0."
            )
