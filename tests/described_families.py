"""Modules with families, linear scalings and axes that occur twice, with specifications written by hand."""

import torch
from described_modules import Described
from torch import Tensor, nn

from wsl.spec import WeightSpec


class Attention(nn.Module):
    """Two heads between linear layers: the stream and the inner axes of heads meet linear operators only."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(3, 4), nn.Linear(4, 2)
        self.q, self.k = (nn.Linear(4, 2 * 3, bias=False) for _ in range(2))
        self.v, self.out = nn.Linear(4, 2 * 3), nn.Linear(2 * 3, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        q, k, v = (part(x).unflatten(-1, (2, 3)).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = (q @ k.transpose(2, 3)).softmax(-1) @ v
        return self.head(x + self.out(mixed.transpose(1, 2).flatten(2)))


class Recurrent(nn.Module):
    """An LSTM: four gates in one tensor, of which one flips its sign together with what they all read."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0])


class Experts(nn.Module):
    """A dense mixture of experts, each with hidden units of its own, each of those with units of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.ones(3, 2))
        self.first = nn.Parameter(torch.ones(3, 2, 2))
        self.second = nn.Parameter(torch.ones(3, 2, 3))
        self.third = nn.Parameter(torch.ones(2, 3, 2, 3))

    def forward(self, x: Tensor) -> Tensor:
        units = torch.tanh(torch.einsum("bax,nx->nba", self.first, x))
        finer = torch.sin(torch.einsum("bar,nba->nbar", self.second, units))
        made = torch.einsum("ybar,nbar->nby", self.third, finer)
        return (torch.softmax(x @ self.gate.T, 1).unsqueeze(2) * made).sum(1)


class Slots(nn.Module):
    """Fixed slots, which the output tells apart, with hidden units of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.write, self.read = nn.Parameter(torch.ones(2, 3, 2)), nn.Parameter(torch.ones(2, 3, 2))

    def forward(self, x: Tensor) -> Tensor:
        made = torch.einsum("sdx,nx->nsd", self.write, x).relu()
        return torch.einsum("nsd,sdy->nsy", made, self.read)


FAMILIES = {
    "attention": Described(
        Attention,
        torch.zeros(2, 5, 3),
        WeightSpec.parse(
            """
            axes  h1: 4 hidden linear  a: 2 hidden  d: 3 hidden linear  e: 3 hidden linear
            axes  x: 3 input  y: 2 output
            embed.weight  h1 x
            embed.bias    h1
            head.weight   y h1
            head.bias     y
            q.weight      (a d[a]) h1
            k.weight      (a d[a]) h1
            v.weight      (a e[a]) h1
            v.bias        (a e[a])
            out.weight    h1 (a e[a])
            out.bias      h1
            scaling: h1 linear embed.weight+1 embed.bias+1 out.weight+1 out.bias+1 head.weight-1 q.weight-1 k.weight-1 v.weight-1
            scaling: d linear q.weight+1 k.weight-1
            scaling: e linear v.weight+1 v.bias+1 out.weight-1
            """  # noqa: E501
        ),
    ),
    "lstm": Described(
        Recurrent,
        torch.zeros(2, 3, 3),
        WeightSpec.parse(
            """
            axes  h1: 4 hidden tanh sign  x: 3 input  y: 2 output
            lstm.weight_ih_l0  (h1 + h1 + h1 + h1) x
            lstm.weight_hh_l0  (h1 + h1 + h1 + h1) h1
            lstm.bias_ih_l0    (h1 + h1 + h1 + h1)
            lstm.bias_hh_l0    (h1 + h1 + h1 + h1)
            head.weight        y h1
            head.bias          y
            scaling: h1 sign lstm.weight_ih_l0[2]+1 lstm.bias_ih_l0[2]+1 lstm.bias_hh_l0[2]+1 lstm.weight_hh_l0[2]@0+1 lstm.weight_hh_l0[0]@1+1 lstm.weight_hh_l0[1]@1+1 lstm.weight_hh_l0[2]@1+1 lstm.weight_hh_l0[3]@1+1 head.weight+1
            """  # noqa: E501
        ),
    ),
    "experts": Described(
        Experts,
        torch.zeros(4, 2),
        WeightSpec.parse(
            """
            axes  b: 3 hidden  a: 2 hidden tanh sign  r: 3 hidden sin sign  x: 2 input  y: 2 output
            gate    b x
            first   b a[b] x
            second  b a[b] r[b,a]
            third   y b a[b] r[b,a]
            scaling: a sign first+1 second+1
            scaling: r sign second+1 third+1
            """
        ),
    ),
    "slots": Described(
        Slots,
        torch.zeros(4, 2),
        WeightSpec.parse(
            """
            axes  d: 3 hidden relu positive  s: 2 fixed  x: 2 input  y: 2 output
            write  s d[s] x
            read   s d[s] y
            scaling: d positive write+1 read-1
            """
        ),
    ),
    "low_rank": Described(
        lambda: nn.Sequential(nn.Linear(3, 4, bias=False), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)),
        torch.zeros(3, 3),
        WeightSpec.parse(
            """
            axes  r1: 4 hidden linear  h1: 5 hidden relu positive  x: 3 input  y: 2 output
            0.weight  r1 x
            1.weight  h1 r1
            1.bias    h1
            3.weight  y h1
            3.bias    y
            scaling: r1 linear 0.weight+1 1.weight-1
            scaling: h1 positive 1.weight+1 1.bias+1 3.weight-1
            """
        ),
    ),
    "norm_behind": Described(
        lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Linear(4, 2)),
        torch.zeros(5, 3),
        WeightSpec.parse(
            """
            axes  h1: 4 hidden relu positive  x: 3 input  y: 2 output
            0.weight        h1 x
            0.bias          h1
            2.weight        h1
            2.bias          h1
            2.running_mean  h1
            2.running_var   h1
            3.weight        y h1
            3.bias          y
            scaling: h1 positive 0.weight+1 0.bias+1 2.running_mean+1 2.weight-1
            scaling: h1 positive 2.weight+1 2.bias+1 3.weight-1
            scaling: h1 sign 2.weight+1 2.bias+1 3.weight+1
            """
        ),
    ),
}
