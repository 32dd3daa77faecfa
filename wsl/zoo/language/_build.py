"""Builds a zoo of language models: populations whose networks differ in their hyperparameters."""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import wsl
from wsl.zoo._errors import ZooError
from wsl.zoo._executors import ExecutorName, executor_of
from wsl.zoo._store import Zoo
from wsl.zoo.language._architecture import CharRecurrents, LanguageArchitecture
from wsl.zoo.language._plan import LanguagePlan, draw_plans, stacks_of
from wsl.zoo.language._recipe import LanguageRecipe
from wsl.zoo.language._stack import LanguageStack
from wsl.zoo.language._text import PydocText, TextSource, character_text, windows
from wsl.zoo.language._train import evaluate, network_text, train_networks
from wsl.zoo.training import Population, TrainedStack, build_population, finite_rows

_SOURCE, _RECIPE = PydocText(), LanguageRecipe()


def build_language_zoo(
    out: str | os.PathLike[str],
    networks: int,
    source: TextSource = _SOURCE,
    architecture: LanguageArchitecture | None = None,
    recipe: LanguageRecipe = _RECIPE,
    length: int = 64,
    test_fraction: float = 0.1,
    evaluated: int | None = None,
    splits: Mapping[str, float] | None = None,
    limit: int | None = None,
    seed: int = 0,
    dtype: str = "float32",
    executor: ExecutorName = "local",
    address: str | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Zoo:
    """Train language models of characters and store their checkpoints; called again, a build goes on.

    A row is a checkpoint. Columns: ``model``, ``step`` (of the optimizer), ``train_loss``, ``train_accuracy``
    (on the network's own sequences), ``test_loss``, ``test_accuracy``, ``diverged``, ``train_characters``,
    those of the architecture, and all hyperparameters. Losses are in nats a character: the logarithm of the
    vocabulary's size for one that knows nothing. ``diverged`` is 1 where weights or a loss are not finite:
    such networks are stored like all others. Rows are ordered by the networks that train together, then by
    network and step. The provenance has the vocabulary: a character's number is its place in it. The result
    does not depend on the executor, on ``workers`` or on interruptions.

    Args:
        out: the zoo file to make; never overwritten.
        networks: how many to train.
        source: the text.
        architecture: of the networks; by default :class:`CharRecurrents`.
        recipe: how they are trained.
        length: characters of a sequence; each network starts anew with each.
        test_fraction: share of the text, its end, to test on.
        evaluated: sequences at most for each loss and accuracy, spread evenly over the text; by default all.
        splits: share of the networks for each split. By default 70 % train, 10 % val and 20 % test.
        limit: use the first characters only.
        seed: of everything that is drawn. A network depends on it and on its own number.
        dtype: stored type, ``float32`` or ``float16``.
        executor: where networks train: ``local``, in threads of this process, or ``ray``, on a Ray cluster.
        address: ``HOST:PORT`` of the cluster's head; by default ``RAY_ADDRESS``, or the one that this machine
            belongs to.
        workers: stacks that train at once; by default a stack for each processor core of this process, or of
            the cluster.
        progress: show a progress bar on stderr.

    Raises:
        ZooError: an unusable text, arguments or ``out``; nothing is written then.
    """
    counts = {"networks": networks, "length": length, "evaluated": evaluated, "limit": limit}
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ZooError(f"{name} is {count}, expected at least 1.")
    if seed < 0 or not 0 < test_fraction < 1:
        raise ZooError(
            f"seed is {seed}, test_fraction {test_fraction}; expected 0 or more, and within (0, 1)."
        )
    # Not the default itself: on the command line, another class would take over its arguments.
    architecture = CharRecurrents() if architecture is None else architecture
    machines = executor_of(executor, address, workers)
    text = character_text(source.load()[:limit], test_fraction, length)
    plans = draw_plans(networks, architecture, recipe, len(text.vocabulary), length, seed)
    training = _Training(
        windows(text.train, length), windows(text.test, length), architecture, evaluated, dtype
    )
    population = Population(
        stacks=stacks_of(plans),
        name=architecture.name,
        example=lambda forward: _example(architecture.traced_length(forward), len(text.vocabulary)),
        checkpoints=lambda plan: len(plan.stored_steps),
        examples=lambda plan: plan.sequences,
        train=training.train,
        unit="sequences",
        quality=lambda loss: f"{loss:.2f} nats",
    )
    provenance = {
        "builder": "wsl.zoo.language.build_language_zoo",
        "version": wsl.__version__,
        "source": {"class": type(source).__name__, "identity": text.identity},
        "vocabulary": text.vocabulary,
        "length": length,
        "test_fraction": test_fraction,
        "architecture": {"class": type(architecture).__name__, **vars(architecture)},
        "recipe": asdict(recipe),
        "networks": networks,
        "evaluated": evaluated,
        "seed": seed,
    }
    return build_population(
        out,
        population,
        provenance,
        splits=splits,
        seed=seed,
        dtype=dtype,
        executor=machines,
        progress=progress,
    )


@dataclass(frozen=True, eq=False)
class _Training:
    """Trains stacks on sequences ``(n, L + 1)`` and describes their checkpoints."""

    train_sequences: Tensor
    test_sequences: Tensor
    architecture: LanguageArchitecture
    evaluated: int | None
    dtype: str

    def train(self, plans: list[LanguagePlan], advance: Callable[[int], None]) -> TrainedStack:
        stack = self.architecture.stack(plans[0].forward)
        checkpoints = train_networks(stack, plans, self.train_sequences, advance)
        columns: dict[str, list[Any]] = {}
        last = []
        for plan, own in zip(plans, checkpoints, strict=True):
            for name, values in self._columns(stack, plan, torch.stack(own)).items():
                columns.setdefault(name, []).extend(values)
            last.append(columns["test_loss"][-1])
            advance(0)
        rows = torch.stack([row for own in checkpoints for row in own])
        return TrainedStack(stack.tensors(rows), columns, np.array(last))

    def _columns(self, stack: LanguageStack, plan: LanguagePlan, rows: Tensor) -> dict[str, Any]:
        """Metadata of the checkpoints ``(M, P)`` of one network."""
        own = np.sort(network_text(plan, len(self.train_sequences)).rows)
        on_train = evaluate(stack, rows, self.train_sequences[self._evaluated_rows(own)])
        all_test = np.arange(len(self.test_sequences))
        on_test = evaluate(stack, rows, self.test_sequences[self._evaluated_rows(all_test)])
        finite = finite_rows(rows, self.dtype) & np.isfinite(on_train.loss) & np.isfinite(on_test.loss)
        length = self.train_sequences.shape[1] - 1
        constant = {"model": plan.model, "train_characters": len(own) * length}
        constant |= self.architecture.columns(plan.forward) | asdict(plan.hyperparameters)
        return {name: [value] * len(rows) for name, value in constant.items()} | {
            "step": list(plan.stored_steps),
            "train_loss": on_train.loss,
            "train_accuracy": on_train.accuracy,
            "test_loss": on_test.loss,
            "test_accuracy": on_test.accuracy,
            "diverged": (~finite).astype(np.int64),
        }

    def _evaluated_rows(self, rows: np.ndarray) -> Tensor:
        """Some of them, as evenly spread as can be."""
        count = min(len(rows), self.evaluated or len(rows))
        return torch.from_numpy(rows[np.arange(count) * len(rows) // count])


def _example(length: int, vocabulary: int) -> Tensor:
    return torch.randint(vocabulary, (2, length), generator=torch.Generator().manual_seed(0))
