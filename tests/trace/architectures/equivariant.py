"""Networks equivariant to permutations of points and to rotations, and gated ones."""

import torch
from torch import Tensor, nn

from architectures.known import Known


class DeepSets(nn.Module):
    """Permutation-equivariant layers with a maximum, then a sum (arXiv:1703.06114)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Linear(3, 5), nn.Linear(5, 5), nn.Linear(5, 2)

    def forward(self, points: Tensor) -> Tensor:
        h = torch.relu(self.first(points))
        return self.out(torch.relu(self.second(h) - h.amax(1, keepdim=True)).sum(1))


class VectorNeurons(nn.Module):
    """Linear layers over channels of 3D vectors, with projected ReLU (arXiv:2104.12229)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.direction = nn.Linear(2, 5, bias=False), nn.Linear(5, 5, bias=False)
        self.out = nn.Linear(5, 1, bias=False)

    def forward(self, vectors: Tensor) -> Tensor:
        v = self.first(vectors.transpose(1, 2))
        d = self.direction(v)
        along = (v * d).sum(1, keepdim=True)
        v = torch.where(along >= 0, v, v - along / (1e-6 + d.square().sum(1, keepdim=True)) * d)
        return self.out(v).transpose(1, 2)


class GatedVectors(nn.Module):
    """Scalars gate vectors, as in geometric vector perceptrons (arXiv:2009.01411)."""

    def __init__(self) -> None:
        super().__init__()
        self.scalars, self.vectors = nn.Linear(3, 5), nn.Linear(2, 4, bias=False)
        self.gate, self.mixed, self.out = nn.Linear(5, 4), nn.Linear(9, 6), nn.Linear(4, 1, bias=False)
        self.head = nn.Linear(6, 2)

    def forward(self, s: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        v = self.vectors(v.transpose(1, 2))
        s = torch.relu(self.scalars(s))
        mixed = torch.relu(self.mixed(torch.cat([s, v.square().sum(1)], -1)))
        v = v * torch.sigmoid(self.gate(s))[:, None]
        return self.head(mixed), self.out(v)


ROWS = {
    "deep_sets": Known(
        DeepSets,
        lambda: torch.randn(2, 6, 3),
        "5",
        """
        axes  h1: 5 hidden relu positive  x: 3 input  y: 2 output
        first.weight   h1 x
        first.bias     h1
        second.weight  h1 h1
        second.bias    h1
        out.weight     y h1
        out.bias       y
        scaling: h1 positive first.weight+1 first.bias+1 second.weight@0+1 second.weight@1-1 second.bias+1 out.weight-1
        """,  # noqa: E501
    ),
    "vector_neurons": Known(
        VectorNeurons,
        lambda: torch.randn(2, 2, 3),
        "5",
        """
        axes  h1: 5 hidden positive  x: 2 input  y: 1 output
        first.weight      h1 x
        direction.weight  h1 h1
        out.weight        y h1
        scaling: h1 positive first.weight+1 direction.weight@1-1 out.weight-1
        scaling: h1 sign first.weight+1 direction.weight@0+1 direction.weight@1+1 out.weight+1
        """,
    ),
    "gated_vectors": Known(
        GatedVectors,
        lambda: (torch.randn(3, 3), torch.randn(3, 2, 3)),
        "4 5 6",
        """
        axes  h1: 4 hidden sigmoid positive  h2: 5 hidden relu positive  h3: 6 hidden relu positive
        axes  x: 3 input  x2: 2 input  y: 1 output  y2: 2 output
        scalars.weight  h2 x
        scalars.bias    h2
        vectors.weight  h1 x2
        gate.weight     h1 h2
        gate.bias       h1
        mixed.weight    h3 (h2 + h1)
        mixed.bias      h3
        out.weight      y h1
        head.weight     y2 h3
        head.bias       y2
        scaling: h1 positive vectors.weight+1 mixed.weight[1]-2 out.weight-1
        scaling: h1 sign vectors.weight+1 out.weight+1
        scaling: h2 positive scalars.weight+1 scalars.bias+1 gate.weight-1 mixed.weight[0]-1
        scaling: h3 positive mixed.weight[0]+1 mixed.weight[1]+1 mixed.bias+1 head.weight-1
        """,
    ),
}
