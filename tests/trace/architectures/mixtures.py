"""Parallel parts: mixtures of experts, ensembles, branches."""

import torch
from torch import Tensor, nn

from architectures.known import Known

EXPERTS, INNER = 4, 6


class MixtureOfExperts(nn.Module):
    """Experts in stacked parameters; a dense router, or one that keeps the best two."""

    def __init__(self, kept: int = EXPERTS) -> None:
        super().__init__()
        self.kept = kept
        self.router = nn.Linear(3, EXPERTS)
        self.up = nn.Parameter(torch.randn(EXPERTS, 3, INNER))
        self.down = nn.Parameter(torch.randn(EXPERTS, INNER, 2))

    def gates(self, x: Tensor) -> Tensor:
        logits = self.router(x)
        if self.kept < EXPERTS:
            best, index = logits.topk(self.kept, -1)
            logits = torch.full_like(logits, float("-inf")).scatter(-1, index, best)
        return logits.softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(torch.einsum("bi,eih->beh", x, self.up))
        each = torch.einsum("beh,eho->beo", hidden, self.down)
        return (self.gates(x)[..., None] * each).sum(1)


class ExpertModules(nn.Module):
    """Experts that are modules."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(3, 2)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(3, INNER), nn.GELU(), nn.Linear(INNER, 2)) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        gates = self.router(x).softmax(-1)
        return sum(gates[:, i, None] * expert(x) for i, expert in enumerate(self.experts))


class Ensemble(nn.Module):
    """The mean of three networks that run as one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.shift = nn.Parameter(torch.randn(3, 2, 4)), nn.Parameter(torch.randn(3, 1, 4))
        self.last = nn.Parameter(torch.randn(3, 4, 2))

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(torch.baddbmm(self.shift, x.expand(3, *x.shape), self.first))
        return torch.bmm(hidden, self.last).mean(0)


class Branches(nn.Module):
    """Two isomorphic branches, added."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x) + self.right(x)


def _inputs() -> Tensor:
    return torch.randn(5, 3)


ROWS = {
    "mixture_of_experts": Known(
        MixtureOfExperts,
        _inputs,
        "4 6|4",
        """
        axes  h1: 4 hidden  h2: 6 hidden relu positive  x: 3 input  y: 2 output
        up             h1 x h2[h1]
        down           h1 h2[h1] y
        router.weight  h1 x
        router.bias    h1
        scaling: h2 positive up+1 down-1
        """,
        missing="a common shift of the router's logits: no symmetry of an axis",
    ),
    "top_two_experts": Known(lambda: MixtureOfExperts(kept=2), _inputs, "6|4", missing="the experts' order"),
    "expert_modules": Known(
        ExpertModules,
        _inputs,
        "1^2 6^2",
        missing="the experts may change places, with the router's rows: a swap of whole tensors",
    ),
    "ensemble": Known(
        Ensemble,
        lambda: torch.randn(5, 2),
        "3 4|3",
        """
        axes  h1: 4 hidden tanh sign  h2: 3 hidden tanh  x: 2 input  y: 2 output
        first  h2 x h1[h2]
        shift  h2 _ h1[h2]   _=1
        last   h2 h1[h2] y
        scaling: h1 sign first+1 shift+1 last+1
        """,
    ),
    "branches": Known(
        Branches,
        _inputs,
        "4^2",
        """
        axes  h1: 4 hidden tanh sign  h2: 4 hidden tanh sign  x: 3 input  y: 2 output
        left.0.weight   h1 x
        left.0.bias     h1
        left.2.weight   y h1
        left.2.bias     y
        right.0.weight  h2 x
        right.0.bias    h2
        right.2.weight  y h2
        right.2.bias    y
        scaling: h1 sign left.0.weight+1 left.0.bias+1 left.2.weight+1
        scaling: h2 sign right.0.weight+1 right.0.bias+1 right.2.weight+1
        """,
        missing="the two branches may change places: a swap of whole tensors",
    ),
}
