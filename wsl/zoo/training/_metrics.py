"""Loss and accuracy of networks that compute together."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


class Metrics(NamedTuple):
    """Mean cross-entropy in nats, and share of right predictions, of M networks: both ``(M,)`` float64."""

    loss: np.ndarray
    accuracy: np.ndarray


def mean_metrics(networks: int, batches: Iterable[tuple[Tensor, Tensor]]) -> Metrics:
    """Metrics of M networks on the same examples, whose predictions come in batches.

    A prediction from outputs that are not finite is wrong.

    Args:
        networks: M.
        batches: outputs ``(M, n, classes)`` and the classes that are right ``(M, n)``; computed without
            gradients.
    """
    loss, right = torch.zeros(networks, dtype=torch.float64), torch.zeros(networks, dtype=torch.int64)
    count = 0
    with torch.no_grad():
        for outputs, wanted in batches:
            losses = F.cross_entropy(outputs.flatten(0, 1), wanted.flatten(), reduction="none")
            loss += losses.view_as(wanted).double().sum(1)
            right += ((outputs.argmax(-1) == wanted) & outputs.isfinite().all(-1)).sum(1)
            count += wanted.shape[1]
    return Metrics((loss / count).numpy(), (right.double() / count).numpy())
