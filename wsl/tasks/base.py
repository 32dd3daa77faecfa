"""`BaseTask`: what every task on weights shares, from building its encoder to exact resumption."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

import wsl
from wsl.data import BaseDataModule, WeightLoader
from wsl.encoders import Encoder, MixedEncoder, reads_any_spec
from wsl.spec import WeightSpec
from wsl.tasks.configured import ConfiguredTask, OptimizerFactory, ScheduleFactory
from wsl.tasks.factories import TaskError
from wsl.tasks.probing import ProbedNetworks, check_reads_any, check_takes_probes, from_plain, to_plain
from wsl.zoo import ForwardDefinition

EncoderFactory = Callable[[WeightSpec], Encoder]

NOT_BUILT = (
    "the task has no encoder yet: it is built for the data of a run, or from a checkpoint.\n"
    "  Fit it with a Trainer, or load it with {}.load_from_checkpoint(path)."
)
_RECORD, _SHAPE = "wsl", "examples"


class BaseTask(ConfiguredTask):
    """An encoder and a head, built when the specification is known: from the data, or from a checkpoint.

    On data of several architectures the encoder is a :class:`wsl.encoders.MixedEncoder`, and the head one
    that reads any architecture; such a task runs on all mixed data, of whatever architectures.

    Subclasses call :meth:`remember` in their constructor and implement :meth:`build_head`, and
    :meth:`build_mixed_head` if they can work on several architectures.

    Args:
        encoder: an encoder class, or ``functools.partial`` of one; called with the specification. Checkpoints
            give a dict of ``class_path`` and ``init_args``.
        optimizer: likewise, called with the parameters.
        schedule: likewise, called with the optimizer and the number of steps, stepped every step.
        probes: number of inputs at which the encoder probes the networks.
    """

    bases: ClassVar[Mapping[str, type]] = {**ConfiguredTask.bases, "encoder": Encoder}
    runs_networks = False
    """Whether the task runs the networks of the data, so that checkpoints say how they run."""

    def __init__(
        self,
        encoder: EncoderFactory,
        optimizer: OptimizerFactory,
        schedule: ScheduleFactory,
        probes: int = 0,
    ) -> None:
        super().__init__(encoder=encoder, optimizer=optimizer, schedule=schedule)
        if probes < 0:
            raise TaskError(f"probes is {probes}; expected a number of inputs, or 0 for none.")
        self.probes = probes
        self._networks: ProbedNetworks | None = None
        self.encoder: Encoder | MixedEncoder | None = None
        self.head: nn.Module | None = None
        self._record: dict[str, Any] = {}
        self._position: dict[str, int] | None = None

    @abstractmethod
    def build_head(self, spec: WeightSpec, encoder: Encoder, outputs: int) -> nn.Module:
        """The module that reads the encoder's features."""

    def build_mixed_head(self, encoder: MixedEncoder, outputs: int) -> nn.Module:
        """The same for features of any architectures.

        Raises:
            TaskError: the task is for one architecture.
        """
        raise TaskError(
            f"{type(self).__name__} reads one architecture, and the data hold several.\n"
            "  Give it a zoo of one architecture."
        )

    def configure_model(self) -> None:
        """Build encoder and head for the data's specification, with the statistics of its train split."""
        if self._trainer is None:
            return  # load_from_checkpoint, which goes on to build it from the checkpoint
        data = getattr(self.trainer, "datamodule", None)
        if not isinstance(data, BaseDataModule):
            raise TaskError(
                f"{type(self).__name__} was given {type(data).__name__} as data; expected a "
                "wsl data module.\n"
                "  Its encoder is built for the data's specification: pass datamodule=ZooDataModule(path)."
            )
        record = self._record_of(data)
        if self.encoder is not None:
            self._check_record(record, f"the data, {data.fingerprint}")
            self._probe_also(data)
            return
        self._build(record, self._examples_of(data))
        if not self.trainer.ckpt_path:
            self.set_data(data)

    def build(self, data: BaseDataModule) -> None:
        """Build the task without a run, as at the start of one on ``data``: with new random parameters."""
        self._build(self._record_of(data), self._examples_of(data))
        self.set_data(data)

    @property
    def spec(self) -> WeightSpec:
        """The architecture that the task is built for; of several, one of them. Raises TaskError before."""
        if not self._record:
            raise TaskError(NOT_BUILT.format(type(self).__name__))
        return WeightSpec.parse(self._record["spec"])

    @property
    def label(self) -> str:
        """What the labels of the data were that it is built for; nothing if there were none."""
        return str(self._record.get("label", ""))

    @property
    def forward_definition(self) -> ForwardDefinition | None:
        """How the networks run that it is built for; ``None`` for several architectures, or if unknown."""
        known = list(from_plain(self._record.get("forward", ())))
        return known[0][1] if len(known) == 1 and not self.reads_any else None

    @property
    def reads_any(self) -> bool:
        """Whether it is built for several architectures, and so for all."""
        return isinstance(self.encoder, MixedEncoder)

    def rehearse(self, data: BaseDataModule) -> None:
        """Build all that a run on ``data`` needs and drop it again; torch's random state stays as it is.

        Raises:
            TaskError: encoder, head, optimizer or schedule do not accept their arguments, or each other.
            DataError: the data have nothing that this task can learn.
        """
        record = self._record_of(data)
        try:
            with torch.random.fork_rng(devices=[]):
                self._build(record, self._examples_of(data))
                self._factories["schedule"](self._factories["optimizer"](self.parameters()), 1)
        except (TypeError, ValueError, RuntimeError) as err:  # what constructors raise on faulty arguments
            if isinstance(err, TaskError):
                raise
            raise TaskError(
                f"the model, its optimizer or its schedule cannot be built: {err}\n"
                "  Correct the arguments under model."
            ) from err
        finally:
            self.encoder, self.head, self._networks, self._record = None, None, None, {}

    def outputs(self, data: BaseDataModule) -> int:
        """Number of values that the head gives for each network."""
        return data.classes

    def set_data(self, data: BaseDataModule) -> None:
        """Take from the data what buffers keep: the statistics of the training weights, for the encoder."""
        assert self.encoder is not None
        statistics = data.statistics
        self.encoder.set_statistics(statistics.mean, statistics.std)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        loader = self.trainer.train_dataloader
        position = loader.state_dict() if isinstance(loader, WeightLoader) else None
        checkpoint[_RECORD] = {**self._record, "seed": self._seed, "position": position}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Build encoder and head for the checkpoint's specification, unless the data already did."""
        record = checkpoint.get(_RECORD)
        if not isinstance(record, dict) or not record.get("spec"):
            raise TaskError(
                "the checkpoint has no weight-space specification, so it was not written by a task of wsl.\n"
                "  Give a checkpoint of `python -m wsl fit`, e.g. runs/NAME/checkpoints/best.ckpt."
            )
        if self.encoder is None:
            self._build(record)
        self._check_record(record, "the checkpoint")
        if record.get(_SHAPE) != self._record.get(_SHAPE):  # its probes take the place of those of the data
            self._build({**self._record, _SHAPE: record.get(_SHAPE)})
        self._seed, self._position = record["seed"], record["position"]

    def on_fit_start(self) -> None:
        super().on_fit_start()
        for log in self.loggers:
            log.log_hyperparams({key: self._record[key] for key in ("spec", "zoo", "version")})

    def on_train_start(self) -> None:
        """Continue inside the epoch: Lightning itself restores no loader that a schedule asked for before."""
        loader = self.trainer.train_dataloader
        if self._position is not None and isinstance(loader, WeightLoader):
            loader.load_state_dict(self._position)
        self._position = None

    def on_train_epoch_end(self) -> None:
        """Stop a run that has diverged, before a checkpoint of it replaces the last good one."""
        loss = self.trainer.callback_metrics.get("train/loss")
        if loss is not None and not loss.isfinite():
            raise TaskError(
                f"training has diverged: the mean loss of epoch {self.current_epoch + 1} is {float(loss)}.\n"
                "  Lower the learning rate, or look for extreme weights in the zoo. Checkpoints of earlier "
                "epochs are kept."
            )

    def _record_of(self, data: BaseDataModule) -> dict[str, Any]:
        return {
            "spec": str(data.spec),
            "mixed": data.mixed,
            # of one architecture always, to tell networks that run otherwise; of many, if something runs them
            "forward": to_plain(data.forward_definitions)
            if self.probes or self.runs_networks or not data.mixed
            else [],
            "label": data.label,
            "outputs": self.outputs(data),
            "zoo": data.fingerprint,
            "version": wsl.__version__,
        }

    def _examples_of(self, data: BaseDataModule) -> Tensor | None:
        """Inputs to start probes from, which are read only where there are probes."""
        return data.examples if self.probes else None

    def _build(self, record: dict[str, Any], examples: Tensor | None = None) -> None:
        """Make encoder and head; probes start at ``examples``, if there are any.

        The record notes their shape: whoever reads a checkpoint has no examples, and needs no more than that.
        """
        spec = WeightSpec.parse(record["spec"])
        extras: dict[str, Any] = {}
        if self.probes:
            kind: type[Encoder] = self._recipes["encoder"].load(Encoder)
            check_takes_probes(kind, self.probes)
            if examples is not None:
                record = {**record, _SHAPE: list(examples.shape[1:])}
            elif record.get(_SHAPE):
                examples = torch.zeros(self.probes, *record[_SHAPE])
            definitions, alike = from_plain(record["forward"]), not reads_any_spec(kind)
            networks = self._networks = ProbedNetworks(definitions, self.probes, examples, alike)
            extras["probes"] = kind.probe_features(networks(spec), spec, networks.examples, self.probes)
        if record["mixed"]:
            check_reads_any(self._recipes["encoder"].load(Encoder), self.probes)
            mixed = MixedEncoder(self._factories["encoder"](spec, **extras), modules=self._networks)
            self.head = self.build_mixed_head(mixed, record["outputs"])
            self.encoder, self._record = mixed, dict(record)
            return
        encoder = self._factories["encoder"](spec, **extras)
        self.head = self.build_head(spec, encoder, record["outputs"])
        self.encoder, self._record = encoder, dict(record)

    @contextmanager
    def running(self, spec: WeightSpec, module: nn.Module) -> Iterator[None]:
        """For a while, probes of a model of any architectures run networks of ``spec`` as ``module``."""
        if self._networks is None or not isinstance(self.encoder, MixedEncoder):
            yield
            return
        with self._networks.given(spec, module):
            self.encoder.forget(spec)
            try:
                yield
            finally:
                self.encoder.forget(spec)

    def _probe_also(self, data: BaseDataModule) -> None:
        """Let a model that was built for other data probe the networks of these, if it reads them."""
        if self._networks is not None and isinstance(self.encoder, MixedEncoder):
            self._networks.add(data.forward_definitions)

    def _check_record(self, record: dict[str, Any], source: str) -> None:
        if record["mixed"] != self._record["mixed"]:
            kinds = {True: "any architectures", False: "one architecture"}
            raise TaskError(
                f"the model is one for {kinds[self._record['mixed']]}, and {source} is for "
                f"{kinds[record['mixed']]}.\n"
                "  A list of zoos, also of one (data.path [FILE]), is data of any architectures."
            )
        for key in ("outputs",) if record["mixed"] else ("spec", "outputs"):
            if record[key] != self._record[key]:
                ours, theirs = str(self._record[key]).splitlines(), str(record[key]).splitlines()
                raise TaskError(
                    f"the model was built for another {key} than {source} has.\n"
                    f"  model: {'; '.join(line for line in ours if line not in theirs)}\n"
                    f"  given: {'; '.join(line for line in theirs if line not in ours)}\n"
                    "  Train a model on this data, or give it data of its own architecture."
                )
