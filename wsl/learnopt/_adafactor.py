"""Features with second moments, by weight and by row and column."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from wsl.learnopt._entries import Entries
from wsl.learnopt._features import (
    OptimizerFeatures,
    Seen,
    check_decays,
    moving_means,
    state_of,
    step_encoding,
    tensor_of,
)
from wsl.learnopt._types import State
from wsl.spec import BlockRef


class AdafactorFeatures(OptimizerFeatures):
    """Gradient, value, momenta, second moments, and those of rows and columns: 39 channels, 11 for the step.

    Rows and columns of a block are its two largest dimensions of neurons; kernel positions and further axes
    stay apart. A block with fewer has second moments of every weight instead. Each channel is then divided by
    its root mean square over a block of one lane. All decays are learned.

    Args:
        momenta: decays of the means of gradients.
        squares: decays of the means of squares.
        factors: decays of the means of squares of rows and columns, as many as of gradients.
        floor: what mean squares are increased by, before roots and for the normalisation of what has the unit
            of gradients; its square for what has the unit of their squares.

    Raises:
        ValueError: a decay that is not between 0 and 1, or other numbers of factors than of momenta.

    Source: Metz et al. 2022 (arXiv:2203.11860), appendix; Shazeer and Stern 2018 (arXiv:1804.04235), Alg. 4,
    for rows and columns. Deviates: dimensions are chosen among those of neurons; one floor.
    """

    floors: Tensor

    def __init__(
        self,
        momenta: Sequence[float] = (0.9, 0.99, 0.999),
        squares: Sequence[float] = (0.999,),
        factors: Sequence[float] = (0.9, 0.99, 0.999),
        floor: float = 1e-9,
    ) -> None:
        if len(momenta) != len(factors):
            raise ValueError(
                f"momenta are divided by factors one by one; got {len(momenta)} and {len(factors)} decays."
            )
        if len(squares) not in (1, len(momenta)):
            raise ValueError(f"squares has {len(squares)} decays; expected 1 or {len(momenta)}.")
        super().__init__(2 + 2 * len(momenta) + 2 * len(squares) + 6 * len(factors))
        self.floor = floor
        self.logit_momenta, self.logit_squares = _logits(momenta), _logits(squares)
        self.logit_factors = _logits(factors)
        units = [1, 1, *[1] * len(momenta), *[2] * len(squares)]
        units += [0] * (len(momenta) + len(squares) + len(factors))
        units += [2] * (2 * len(factors)) + [0] * (3 * len(factors))
        floors = torch.tensor([floor ** max(unit, 1) for unit in units], dtype=torch.float64)
        self.register_buffer("floors", floors.unsqueeze(1))

    def init(self, entries: Entries, row: Tensor) -> State:
        rows: State = {}
        columns: State = {}
        for ref in entries.blocks:
            dims = _factored(ref)
            for found, gone in ((rows, dims[1:]), (columns, dims[:1])):
                if found is rows or dims:
                    kept = [1 if dim in gone else size for dim, size in enumerate(ref.block.view)]
                    found[ref.key] = row.new_zeros(len(row), self.logit_factors.shape[-1], *kept)
        means = {
            "momenta": row.new_zeros(len(row), self.logit_momenta.shape[-1], entries.count),
            "squares": row.new_zeros(len(row), self.logit_squares.shape[-1], entries.count),
        }
        return {**means, "rows": rows, "columns": columns}

    def forward(self, entries: Entries, values: Tensor, grads: Tensor, state: State, step: Tensor) -> Seen:
        squared = grads.square()
        momenta = moving_means(tensor_of(state, "momenta"), grads, self.logit_momenta.sigmoid())
        squares = moving_means(tensor_of(state, "squares"), squared, self.logit_squares.sigmoid())
        roots = (squares + self.floor).rsqrt()
        rows, columns, factored = self._factor(entries, grads, squared, momenta, state)
        own = [grads.unsqueeze(1), values.unsqueeze(1), momenta, squares, momenta * roots, roots]
        seen = entries.normalise(torch.cat([*own, factored], dim=1), self.floors.to(values.dtype))
        new: State = {"momenta": momenta, "squares": squares, "rows": rows, "columns": columns}
        return Seen(seen, step_encoding(step, values), new)

    def _factor(
        self, entries: Entries, grads: Tensor, squared: Tensor, momenta: Tensor, state: State
    ) -> tuple[State, State, Tensor]:
        """Means of rows and of columns, and the ``6 K`` channels that are made with them ``(L, 6 K, N)``."""
        old_rows, old_columns = state_of(state, "rows"), state_of(state, "columns")
        rows: State = {}
        columns: State = {}
        features = []
        parts = zip(
            entries.blocks, *(x.split(entries.sizes, -1) for x in (grads, squared, momenta)), strict=True
        )
        for ref, grad, square, momentum in parts:
            view, key = ref.block.view, ref.key
            square = square.reshape(len(square), *view)
            dims = _factored(ref)
            row = column = rows[key] = self._mean(tensor_of(old_rows, key), square, dims[1:])
            row_root = column_root = scale = (row + self.floor).rsqrt()
            if dims:
                column = columns[key] = self._mean(tensor_of(old_columns, key), square, dims[:1])
                column_root = (column + self.floor).rsqrt()
                scale = row_root * column_root * (row.mean(dims[0] + 2, keepdim=True) + self.floor).sqrt()
            grad, momentum = (x.reshape(len(x), -1, *view) for x in (grad, momentum))
            own = [grad * scale, row, column, row_root, column_root, momentum * scale]
            wide = [x.expand(*x.shape[:2], *view).reshape(*x.shape[:2], -1) for x in own]
            features.append(torch.cat(wide, dim=1))
        return rows, columns, torch.cat(features, dim=-1)

    def _mean(self, means: Tensor, square: Tensor, over: tuple[int, ...]) -> Tensor:
        """The moving mean of squares ``(L, *view)``, averaged over a dimension of the view or none."""
        news = square.mean([dim + 1 for dim in over], keepdim=True) if over else square
        flat = means.reshape(*means.shape[:2], -1), news.reshape(len(news), -1)
        return moving_means(*flat, self.logit_factors.sigmoid()).reshape(means.shape)


def _factored(ref: BlockRef) -> tuple[int, ...]:
    """The dimensions of rows and of columns: the two largest ones of neurons; none if there are fewer."""
    dims = sorted(ref.block.neuron_dims, key=lambda dim: -ref.block.view[dim])[:2]
    return tuple(sorted(dims)) if len(dims) == 2 else ()


def _logits(decays: Sequence[float]) -> nn.Parameter:
    check_decays(decays)
    return nn.Parameter(torch.logit(torch.tensor(decays, dtype=torch.float64)))
