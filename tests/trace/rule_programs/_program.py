"""A tiny program between linear layers, and the groups that it leaves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Rows = Mapping[str, "Program"]


@dataclass(frozen=True)
class Program:
    """A function of hidden neurons ``h`` of shape ``(batch, 6, 4)``.

    Args:
        found: the sizes of all hidden axes, and of fixed ones with the reason, as in ``6, 4!cumsum``: the
            operator in the module ``middle``, or the whole reason.
        function: takes the neurons, and parameters of the module ``middle``.
        shapes: of these parameters.
        exact: whether it runs in double precision.
    """

    found: str
    function: Callable[..., Tensor]
    shapes: Mapping[str, tuple[int, ...]] | None = None
    exact: bool = True

    def module(self) -> nn.Module:
        """The network in double precision."""
        torch.manual_seed(0)
        dtype = torch.float64 if self.exact else torch.float32
        return Between(Middle(self)).to(dtype)

    def inputs(self) -> Tensor:
        """A batch of two."""
        return torch.randn(2, 3, dtype=torch.float64 if self.exact else torch.float32)


class Middle(nn.Module):
    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        for name, shape in (program.shapes or {}).items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape)))

    def forward(self, h: Tensor) -> Tensor:
        return self.program.function(h, **dict(self.named_parameters()))


class Between(nn.Module):
    """The neurons are sums of six rows' and four columns' parts, so that rows and columns are axes."""

    def __init__(self, middle: Middle) -> None:
        super().__init__()
        self.rows, self.columns, self.middle = nn.Linear(3, 6), nn.Linear(3, 4), middle
        with torch.no_grad():
            width = self.middle(torch.rand(2, 6, 4)).flatten(1).shape[1]
        self.last = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.sigmoid(self.rows(x)[:, :, None] + self.columns(x)[:, None])
        out = self.middle(h).flatten(1)
        return self.last(torch.view_as_real(out).sum(-1) if out.is_complex() else out.to(x.dtype))
