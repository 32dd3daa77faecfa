"""Builds a zoo of language models: populations whose networks differ in their hyperparameters."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from wsl.zoo._errors import ZooError
from wsl.zoo._executors import ExecutorName
from wsl.zoo._store import Zoo
from wsl.zoo.language._architecture import CharRecurrents, LanguageArchitecture
from wsl.zoo.language._plan import LanguagePlan, sequences_seen, stack_size
from wsl.zoo.language._recipe import LanguageRecipe
from wsl.zoo.language._stack import LanguageStack
from wsl.zoo.language._text import PydocText, TextSource, character_text, windows
from wsl.zoo.language._train import evaluate, network_text, train_networks
from wsl.zoo.training import (
    Description,
    Population,
    StackTraining,
    build_population,
    build_provenance,
    build_settings,
    check_positive,
    draw_plans,
    stacks_of,
)

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
    check_positive(networks=networks, length=length, evaluated=evaluated, limit=limit)
    settings = build_settings(out, splits, seed, dtype, executor, address, workers, progress)
    if not 0 < test_fraction < 1:
        raise ZooError(f"test_fraction is {test_fraction}, expected a number within (0, 1).")
    # Not the default itself: on the command line, another class would take over its arguments.
    architecture = CharRecurrents() if architecture is None else architecture
    text = character_text(source.load()[:limit], test_fraction, length)
    vocabulary = len(text.vocabulary)
    plans = draw_plans(networks, recipe, partial(architecture.draw, vocabulary, length), seed)
    training = _Training(
        architecture, evaluated, dtype, windows(text.train, length), windows(text.test, length)
    )
    population = Population(
        stacks=stacks_of(plans, sequences_seen, stack_size),
        name=architecture.name,
        example=lambda forward: _example(architecture.traced_length(forward), vocabulary),
        examples=sequences_seen,
        train=training.train,
        unit="sequences",
        quality=lambda loss: f"{loss:.2f} nats",
    )
    provenance = build_provenance(
        "wsl.zoo.language.build_language_zoo",
        architecture,
        recipe,
        seed,
        source={"class": type(source).__name__, "identity": text.identity},
        vocabulary=text.vocabulary,
        length=length,
        test_fraction=test_fraction,
        networks=networks,
        evaluated=evaluated,
    )
    return build_population(settings, population, provenance)


@dataclass(frozen=True, eq=False)
class _Training(StackTraining[LanguagePlan, LanguageStack]):
    """Trains stacks on sequences ``(n, L + 1)`` and describes their checkpoints."""

    train_sequences: Tensor
    test_sequences: Tensor
    quality = "test_loss"

    def rows(
        self, stack: LanguageStack, plans: Sequence[LanguagePlan], advance: Callable[[int], None]
    ) -> list[Tensor]:
        return list(map(torch.stack, train_networks(stack, plans, self.train_sequences, advance)))

    def describe(self, stack: LanguageStack, plan: LanguagePlan, rows: Tensor) -> Description:
        own = np.sort(network_text(plan, len(self.train_sequences)).rows)
        tested, length = np.arange(len(self.test_sequences)), self.train_sequences.shape[1] - 1
        return Description(
            evaluate(stack, rows, self.train_sequences[self._evaluated_rows(own)]),
            evaluate(stack, rows, self.test_sequences[self._evaluated_rows(tested)]),
            {"train_characters": len(own) * length},
        )

    def _evaluated_rows(self, rows: np.ndarray) -> Tensor:
        """Some of them, as evenly spread as can be."""
        count = min(len(rows), self.evaluated or len(rows))
        return torch.from_numpy(rows[np.arange(count) * len(rows) // count])


def _example(length: int, vocabulary: int) -> Tensor:
    return torch.randint(vocabulary, (2, length), generator=torch.Generator().manual_seed(0))
