"""Linear sum assignment for a batch."""

import numpy as np
import torch
from torch import Tensor


def assign(gains: Tensor) -> tuple[Tensor, Tensor]:
    """Match rows with columns so that the sum of the gains is largest.

    Args:
        gains: ``(..., n, n)``, finite.

    Returns:
        The column of each row ``(..., n)``, and the sums ``(...)``.
    """
    # Loaded on first use: whoever augments without alignment does without scipy's half second.
    from scipy.optimize import linear_sum_assignment

    flat = gains.cpu().numpy().reshape(-1, *gains.shape[-2:])
    columns = np.empty(flat.shape[:2], dtype=np.int64)
    for index, problem in enumerate(flat):
        columns[index] = linear_sum_assignment(problem, maximize=True)[1]
    matched = torch.from_numpy(columns).view(gains.shape[:-1]).to(gains.device)
    return matched, gains.gather(-1, matched.unsqueeze(-1)).squeeze(-1).sum(-1)


def assign_with_signs(plain: Tensor, turned: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same where each pair's gain is ``plain + sign * turned``, with the better sign.

    Returns:
        Columns ``(..., n)``, sums ``(...)``, and the signs ``(..., n)``, +1 where they do not matter.
    """
    matched, total = assign(plain + turned.abs())
    chosen = turned.gather(-1, matched.unsqueeze(-1)).squeeze(-1)
    return matched, total, torch.where(chosen < 0, -1.0, 1.0).to(plain)
