"""Trains language models of one architecture together and evaluates their checkpoints."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from wsl.zoo.language._initial import initial_row
from wsl.zoo.language._plan import DROPOUT, INITIAL, TEXT, LanguagePlan
from wsl.zoo.language._stack import LanguageStack
from wsl.zoo.training import StackedDropout, StackedOptimizer, train_rows

# Characters of one evaluation step, over all networks. Part of the result's rounding: a constant.
_EVALUATED = 8192


class Figures(NamedTuple):
    """Mean cross-entropy in nats a character, and share of right guesses, of M networks: ``(M,)`` float64."""

    loss: np.ndarray
    accuracy: np.ndarray


class NetworkText:
    """The training sequences of one network and the order in which it sees them, anew every time through.

    Args:
        sequences: how many there are.
        fraction: share of them that this network has, at least one.
        generator: of the choice and the order.
    """

    def __init__(self, sequences: int, fraction: float, generator: np.random.Generator) -> None:
        self.rows = generator.permutation(sequences)[: max(1, round(fraction * sequences))]
        self._generator = generator
        self._waiting = np.empty(0, dtype=np.int64)

    def next_batch(self, size: int) -> np.ndarray:
        """Rows of the next sequences, ``(size,)``."""
        while len(self._waiting) < size:
            self._waiting = np.concatenate([self._waiting, self._generator.permutation(self.rows)])
        taken, self._waiting = self._waiting[:size], self._waiting[size:]
        return taken


def network_text(plan: LanguagePlan, sequences: int) -> NetworkText:
    """What one network sees, from the start."""
    generator = np.random.default_rng(plan.seed_of(TEXT))
    return NetworkText(sequences, plan.hyperparameters.train_fraction, generator)


def initial_rows(stack: LanguageStack, plans: Sequence[LanguagePlan]) -> Tensor:
    """``(M, P)`` float32; each row depends on its own plan alone."""
    rows = []
    for plan in plans:
        words = np.random.SeedSequence(plan.seed_of(INITIAL)).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(words[0] >> 1))
        drawn = plan.hyperparameters
        rows.append(initial_row(stack.shapes, drawn.initialisation, drawn.initial_scale, generator))
    return torch.stack(rows)


def train_networks(
    stack: LanguageStack,
    plans: Sequence[LanguagePlan],
    sequences: Tensor,
    advance: Callable[[int], None] = lambda sequences: None,
    dtype: torch.dtype = torch.float32,
) -> list[list[Tensor]]:
    """Train networks of one batch size together, as each would train alone.

    Args:
        plans: by falling number of steps; networks that are done leave the stack.
        sequences: ``(n, L + 1)``, all that there are to train on.
        advance: called before each step with the number of sequences in it, over all networks.
        dtype: in which to compute.

    Returns:
        For each network its checkpoints ``(P,)``, in order.
    """
    drawn = [plan.hyperparameters for plan in plans]
    size = drawn[0].batch_size
    texts = [network_text(plan, len(sequences)) for plan in plans]
    rows = initial_rows(stack, plans).to(dtype)
    optimizer = StackedOptimizer(
        [h.optimizer for h in drawn], [h.learning_rate for h in drawn], [h.weight_decay for h in drawn], rows
    )
    dropout = StackedDropout([h.dropout for h in drawn], [plan.seed_of(DROPOUT) for plan in plans])

    def gradient(active: int) -> Tensor:
        advance(active * size)
        taken = torch.from_numpy(np.stack([text.next_batch(size) for text in texts[:active]]))
        return stack.gradient(rows[:active], sequences[taken], dropout)

    return train_rows(rows, [plan.stored_steps for plan in plans], optimizer, gradient)


def evaluate(stack: LanguageStack, rows: Tensor, sequences: Tensor) -> Figures:
    """Figures of M networks ``(M, P)`` on the same sequences ``(n, L + 1)``.

    Characters for which a network's outputs are not finite count as wrong.
    """
    M, (n, length) = len(rows), sequences.shape
    parameters = stack.tensors(rows)
    loss, right = torch.zeros(M, dtype=torch.float64), torch.zeros(M, dtype=torch.int64)
    with torch.no_grad():
        for some in sequences.split(max(1, _EVALUATED // (M * length))):
            each = some.expand(M, -1, -1)
            outputs = stack.logits(parameters, stack.arrange(each[..., :-1]))
            wanted = stack.arrange(each[..., 1:]).flatten(1)
            losses = F.cross_entropy(outputs.flatten(0, 1), wanted.flatten(), reduction="none")
            loss += losses.view_as(wanted).double().sum(1)
            right += ((outputs.argmax(-1) == wanted) & outputs.isfinite().all(-1)).sum(1)
    count = n * (length - 1)
    return Figures((loss / count).numpy(), (right.double() / count).numpy())
