"""Predicting where a training will be: weights some checkpoints ahead, from a few past ones."""

import copy
from typing import Self

import torch
from torch import Tensor, nn

from wsl.encoders import GraphMetanetwork
from wsl.learnopt._entries import Entries
from wsl.learnopt._types import Tensors
from wsl.learnopt.networks import EncoderNetwork, UpdateNetwork
from wsl.spec import WeightSpec

HORIZON_CHANNELS = 2
"""How far ahead the prediction is, as the shared features of the network."""


class Nowcaster(nn.Module):
    """``W_T + h s f``: the last checkpoint, and what a network says of all of them.

    The network sees of every weight the differences of its checkpoints over ``s``, the root mean square of
    their steps over a block, and its last value over the root mean square of the block. So predictions scale
    with the steps, and weights that do not move are predicted to stay. ``h`` is how many checkpoints ahead
    the prediction is. Permuted along with the hidden neurons.

    Args:
        spec: the specification of the weights; running statistics of norms are not predicted.
        network: made for ``spec``, ``checkpoints`` entry channels and ``HORIZON_CHANNELS`` shared ones.
        checkpoints: how many past ones it reads, at least 2.

    Raises:
        ValueError: fewer than 2 checkpoints.

    Source: Knyazev et al. 2025 (arXiv:2409.04434). Deviates: the scale is that of steps; any horizon is an
    input, and not one output for each of the first 40.
    """

    def __init__(self, spec: WeightSpec, network: UpdateNetwork, checkpoints: int = 5) -> None:
        super().__init__()
        if checkpoints < 2:
            raise ValueError(f"a nowcaster reads at least 2 checkpoints, got checkpoints={checkpoints}.")
        self.entries, self.network, self.checkpoints = Entries(spec), network, checkpoints

    def forward(self, past: Tensors, ahead: Tensor) -> Tensors:
        """The weights ``ahead (L,)`` checkpoints after the last one of ``past``.

        Args:
            past: by name ``(L, checkpoints, *shape)``, equally far apart, the last one last.
        """
        rows = self.rows(past)
        last = rows[:, -1]
        moved = self.entries.unflatten(last + self.scale(rows) * self.change(rows, ahead))
        return {name: moved[name] for name in past}

    def change(self, rows: Tensor, ahead: Tensor) -> Tensor:
        """The predicted change, over the root mean square of a step: ``(L, T, N)`` to ``(L, N)``."""
        last, ahead = rows[:, -1:], ahead.to(rows.dtype).unsqueeze(-1)
        differences = (rows[:, :-1] - last) / self.scale(rows).unsqueeze(1)
        entries = torch.cat([differences, self.entries.normalise(last, 1e-18)], dim=1)
        shared = torch.cat([ahead / self.checkpoints, ahead.log()], dim=-1)
        output: Tensor = self.network(entries, shared)
        return ahead * output

    def scale(self, rows: Tensor) -> Tensor:
        """The root mean square of a step, over each block: ``(L, T, N)`` to ``(L, N)``."""
        steps = self.entries.means(rows.diff(dim=1).square().mean(1))
        return self.entries.spread((steps + 1e-30).sqrt())

    def rows(self, past: Tensors) -> Tensor:
        """``(L, T, N)``: the entries of checkpoints ``(L, T, *shape)``."""
        first = next(iter(past.values()))
        flat = self.entries.flatten({name: value.flatten(0, 1) for name, value in past.items()})
        return flat.unflatten(0, first.shape[:2])

    def on(self, spec: WeightSpec) -> Self:
        """This nowcaster for another architecture: the same parameters, not copies.

        Raises:
            SpecError: the parameters of the network depend on the architecture.
        """
        twin = copy.copy(self)
        twin._modules = self._modules.copy()
        twin.entries, twin.network = Entries(spec), self.network.on(spec)
        return twin


class GraphNowcaster(Nowcaster):
    """A :class:`Nowcaster` that reads the computational graph, for any architecture by :meth:`on`.

    Args:
        spec: the specification of the weights.
        checkpoints: how many past ones it reads.
        channels, layers: of the graph metanetwork.
        numbers: how many numbers of every weight it reads.
        hidden: of the MLPs before and after it.
    """

    def __init__(
        self,
        spec: WeightSpec,
        checkpoints: int = 5,
        channels: int = 16,
        layers: int = 2,
        numbers: int = 4,
        hidden: int = 32,
    ) -> None:
        encoder = GraphMetanetwork(spec, channels, layers, frequencies=0)
        network = EncoderNetwork(encoder, checkpoints, HORIZON_CHANNELS, numbers, hidden)
        super().__init__(spec, network, checkpoints)


def nowcast_loss(nowcaster: Nowcaster, trajectory: Tensors, first: Tensor, ahead: Tensor) -> Tensor:
    """The mean absolute error of a prediction, over the root mean square of a step and the horizon: ``()``.

    Args:
        trajectory: checkpoints ``(L, T, *shape)`` of ``L`` trainings, equally far apart.
        first: ``(L,)`` int64, where the checkpoints that are read begin.
        ahead: ``(L,)`` int64, how many checkpoints after them the predicted one is, at least 1.

    Raises:
        ValueError: what is to be predicted is beyond the last checkpoint.

    Source: Knyazev et al. 2025 (arXiv:2409.04434), the L1 loss on normalised weights.
    """
    rows = nowcaster.rows(trajectory)
    lanes = torch.arange(len(rows), device=rows.device)
    last = first + nowcaster.checkpoints - 1
    if int((last + ahead).max()) >= rows.shape[1] or int(ahead.min()) < 1:
        raise ValueError(
            f"checkpoints {first.tolist()} to {last.tolist()} are read and {ahead.tolist()} ahead are "
            f"predicted, but the trajectory has {rows.shape[1]}; ahead is at least 1."
        )
    window = first.unsqueeze(1) + torch.arange(nowcaster.checkpoints, device=rows.device)
    past = rows[lanes.unsqueeze(1), window]
    wanted = (rows[lanes, last + ahead] - past[:, -1]) / nowcaster.scale(past)
    error = (nowcaster.change(past, ahead) - wanted).abs() / ahead.unsqueeze(1)
    return error.mean()
