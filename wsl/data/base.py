"""What every data module is: the questions that tasks may ask of their data."""

from typing import Any, NamedTuple

import lightning.pytorch as pl
from torch import Tensor

from wsl.data.statistics import WeightStatistics
from wsl.spec import WeightSpec
from wsl.zoo import ForwardDefinition


class DataError(ValueError):
    """The data of a run are missing, or do not fit what the run asks of them."""


class Targets(NamedTuple):
    """The numbers to predict: ``mean`` and ``std`` over the training networks, limits over all splits.

    ``std`` is 0 for a single network; both are NaN where no network is for training.
    """

    mean: float
    std: float
    low: float
    high: float


class BaseDataModule(pl.LightningDataModule):
    """What every task may ask of its data, available after ``setup``."""

    label = ""
    """What the labels are, for people; nothing if there are none."""

    def check(self, stage: str) -> None:
        """Raise what would stop a run of ``fit``, ``validate``, ``test`` or ``predict``, before it starts."""
        self.setup(stage)

    @property
    def mixed(self) -> bool:
        """Whether batches may hold several architectures: they are :class:`wsl.data.MixedBatch` then."""
        return False

    @property
    def spec(self) -> WeightSpec:
        """The specification of the networks in every batch; of some of them, if batches are mixed."""
        raise NotImplementedError

    @property
    def forward_definitions(self) -> list[tuple[WeightSpec, ForwardDefinition]]:
        """How the networks of each architecture are rebuilt as a module and run, as far as known."""
        raise NotImplementedError

    @property
    def examples(self) -> Tensor | None:
        """Inputs that the networks are meant for ``(samples, ...)``, if there are any: probes start there."""
        return None

    @property
    def statistics(self) -> WeightStatistics:
        """Statistics of the train split: of each block of ``spec``, or by kind of blocks if mixed."""
        raise NotImplementedError

    @property
    def classes(self) -> int:
        """Number of classes that the labels tell apart."""
        raise NotImplementedError

    @property
    def targets(self) -> Targets:
        """The labels as numbers; for tasks that predict these. All must be finite."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """Identifies the data's content, for logs and to refuse resuming on other data."""
        raise NotImplementedError

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Refuse to resume training on other data than the checkpoint's; evaluation may be on any.

        Raises:
            DataError: an entry of :meth:`state_dict` differs.
        """
        if self.trainer is None or self.trainer.state.fn != "fit":
            return
        given = self.state_dict()
        if changed := [key for key, value in given.items() if state_dict.get(key) != value]:
            differences = ", ".join(
                f"{key} was {state_dict.get(key)!r} and is {given[key]!r}" for key in changed
            )
            raise DataError(
                f"the run to resume saw other data than {self}: {differences}.\n"
                "  Resume with the run's own data settings, or start a run under another name."
            )
