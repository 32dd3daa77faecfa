"""The linear layer of universal neural functionals: all equivariant linear maps, for any signature."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from wsl.nn._universal_moves import Reader, fill
from wsl.nn._universal_terms import Families, Selection, Signature, Source, group_terms


class UniversalLinear(nn.Module):
    """Every linear map between lists of tensors that commutes with all permutations of their axes.

    For input ``X`` and output ``Y`` the basis is one term for each set partition of their dimensions whose
    parts hold dimensions of one axis each. A term reads the diagonal of ``X`` along each part, averages over
    the parts without a dimension of ``Y``, maps ``C_in`` to ``C_out`` channels, and fills the diagonal of
    ``Y``, broadcast along parts without a dimension of ``X``. A constant is added on every diagonal of ``Y``.
    Where an axis is a family, its dimensions are linked only where those of the axes that it is over are:
    then these are all maps that commute with the wreath product.

    Tensors are read once for each selection (a diagonal, and what is kept of it). Terms whose linked axes are
    the same become one matrix product, before anything is broadcast: for an MLP one for each weight matrix,
    one for each layer of neurons and one for the network.

    Args:
        inputs, outputs: the axes of every tensor, and how many copies of the channels it has.
        sizes: the size of every axis.
        families: for axes that are families, the axes that they are over.
        in_channels, out_channels: channels of every copy.

    Shapes: a list of ``(B, *sizes, copies * in_channels)`` to one of ``(B, *sizes, copies * out_channels)``.

    Raises:
        SpecError: a tensor carries an axis more than 4 times.

    There are ``C_in * C_out`` parameters for each term and pair of copies, and terms for every pair of
    tensors. Time and memory are linear in the number of weights.

    Source: Zhou et al. 2024 (arXiv:2402.05232), whose basis it is. Deviates: families; constants on
    diagonals; all patterns of linked axes start with equal shares of an output, however many tensors have
    them.
    """

    def __init__(
        self,
        inputs: Sequence[Signature],
        outputs: Sequence[Signature],
        sizes: Mapping[str, int],
        in_channels: int,
        out_channels: int,
        families: Families | None = None,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.groups = group_terms(inputs, outputs, families or {})
        self.shapes = [
            (*(sizes[axis] for axis in signature.axes), signature.copies * out_channels)
            for signature in outputs
        ]
        wanted: list[dict[Selection, None]] = [{} for _ in inputs]
        for source in (source for group in self.groups for source in group.sources):
            wanted[source.tensor][source.selection] = None
        self.readers = [
            Reader(signature.axes, sizes, selections)
            for signature, selections in zip(inputs, wanted, strict=True)
        ]
        self.weights = nn.ParameterList(
            torch.empty(_width(group.targets) * out_channels, _width(group.sources) * in_channels)
            for group in self.groups
        )
        constants = sum(_width(group.targets) * out_channels for group in self.groups if not group.pattern)
        self.bias = nn.Parameter(torch.empty(constants))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters: uniform, as ``nn.Linear`` does, but the patterns of an output weigh alike."""
        patterns: dict[tuple[int, object], int] = {}
        for group in self.groups:
            for target in group.targets:
                place = target.tensor, target.selection.parts
                patterns[place] = patterns.get(place, 0) + 1
        with torch.no_grad():
            for group, weight in zip(self.groups, self.weights, strict=True):
                row = 0
                for target in group.targets:
                    stop = row + target.width * self.out_channels
                    fan_in = weight.shape[1] * patterns[target.tensor, target.selection.parts]
                    nn.init.uniform_(weight[row:stop], -(fan_in**-0.5), fan_in**-0.5)
                    row = stop
            nn.init.uniform_(self.bias, -(self.in_channels**-0.5), self.in_channels**-0.5)

    @property
    def term_count(self) -> int:
        """The number of maps of ``C_in`` to ``C_out`` channels; each pair of copies has its own."""
        return sum(_width(group.sources) * _width(group.targets) for group in self.groups)

    @torch.no_grad()
    def add_identity(self) -> None:
        """Add the identity map, which every square layer contains, to the parameters."""
        for group, weight in zip(self.groups, self.weights, strict=True):
            row = 0
            for target in group.targets:
                width = target.width * self.out_channels
                column = 0
                for source in group.sources:
                    if source == target and len(target.selection.kept) == len(self.shapes[target.tensor]) - 1:
                        block = weight[row : row + width, column : column + width]
                        block += torch.eye(width, dtype=weight.dtype, device=weight.device)
                    column += source.width * self.in_channels
                row += width

    def forward(self, states: Sequence[Tensor]) -> list[Tensor]:
        read = [reader(state) for reader, state in zip(self.readers, states, strict=True)]
        pieces: list[dict[Selection, Tensor]] = [{} for _ in self.shapes]
        for group, weight in zip(self.groups, self.weights, strict=True):
            parts = [read[source.tensor][source.selection] for source in group.sources]
            joined = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
            product = linear(joined, weight, None if group.pattern else self.bias)
            widths = [target.width * self.out_channels for target in group.targets]
            for target, piece in zip(group.targets, product.split(widths, dim=-1), strict=True):
                pieces[target.tensor][target.selection] = piece
        return [fill(shape, found) for shape, found in zip(self.shapes, pieces, strict=True)]

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, terms={self.term_count}"


def _width(ends: Sequence[Source]) -> int:
    return sum(end.width for end in ends)
