"""Trains language models of one architecture together and evaluates their checkpoints."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from wsl.zoo.language._initial import initial_row
from wsl.zoo.language._plan import LanguagePlan
from wsl.zoo.language._stack import LanguageStack
from wsl.zoo.training import EXAMPLES, Metrics, dropout_of, mean_metrics, optimizer_of, train_rows

# Characters of one evaluation step, over all networks. Part of the result's rounding: a constant.
_EVALUATED = 8192


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
    generator = np.random.default_rng(plan.seed_of(EXAMPLES))
    return NetworkText(sequences, plan.hyperparameters.train_fraction, generator)


def initial_rows(stack: LanguageStack, plans: Sequence[LanguagePlan]) -> Tensor:
    """``(M, P)`` float32; each row depends on its own plan alone."""
    rows = []
    for plan in plans:
        drawn, generator = plan.hyperparameters, plan.initial_generator()
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
    size = plans[0].hyperparameters.batch_size
    texts = [network_text(plan, len(sequences)) for plan in plans]
    rows = initial_rows(stack, plans).to(dtype)
    dropout = dropout_of(plans)

    def gradient(active: int) -> Tensor:
        advance(active * size)
        taken = torch.from_numpy(np.stack([text.next_batch(size) for text in texts[:active]]))
        return stack.gradient(rows[:active], sequences[taken], dropout)

    return train_rows(rows, [plan.stored for plan in plans], optimizer_of(plans, rows), gradient)


def evaluate(stack: LanguageStack, rows: Tensor, sequences: Tensor) -> Metrics:
    """Metrics of M networks ``(M, P)`` on the same sequences ``(n, L + 1)``.

    Characters for which a network's outputs are not finite count as wrong.
    """
    M, length = len(rows), sequences.shape[1]
    parameters = stack.tensors(rows)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for some in sequences.split(max(1, _EVALUATED // (M * length))):
            each = some.expand(M, -1, -1)
            outputs = stack.logits(parameters, stack.arrange(each[..., :-1]))
            yield outputs, stack.arrange(each[..., 1:]).flatten(1)

    return mean_metrics(M, batches())
