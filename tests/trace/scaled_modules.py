"""Networks whose scalings are of interest, with these derived by hand."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wsl.spec._values import SCALING_KINDS


class Scaled(NamedTuple):
    """A network, an example, and its scalings as a specification writes them, over several lines if long."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], object]
    text: str

    @property
    def scalings(self) -> list[str]:
        """The scalings that the text lists."""
        found: list[str] = []
        for line in filter(None, map(str.strip, self.text.splitlines())):
            if line.split()[1:2] and line.split()[1] in SCALING_KINDS:
                found.append(line)
            else:
                found[-1] += f" {line}"
        return found


class Mean(nn.Module):
    """A recurrent network and a linear layer on the mean of its states."""

    def __init__(self, rnn: nn.Module, width: int) -> None:
        super().__init__()
        self.rnn, self.out = rnn, nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.rnn(x)[0].mean(0))


class Loop(nn.Module):
    """A recurrent cell in a Python loop."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.loop, self.out = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        h = self.function(self.first(x[0]))
        for entry in x[1:]:
            h = self.function(self.first(entry) + self.loop(h))
        return self.out(h)


class Autoencoder(nn.Module):
    """The decoder is the encoder transposed."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.encoder = nn.Linear(6, 4, bias=False)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.function(self.encoder(x)), self.encoder.weight.t())


class Packed(nn.Module):
    """Both halves of a SwiGLU in one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(3, 8), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * value)


class MultiplicativeFilters(nn.Module):
    """Products of sines of the input between linear layers (arXiv:2006.10742)."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.ModuleList(nn.Linear(2, 4) for _ in range(2))
        self.middle, self.out = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        z = self.filters[0](x).sin()
        return self.out(self.middle(z) * self.filters[1](x).sin())


class LowRank(nn.Module):
    """A linear layer with a low-rank addition (arXiv:2106.09685)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.out = nn.Linear(3, 4), nn.Linear(4, 2)
        self.a, self.b = nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.randn(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.weight(x) + x @ self.a.t() @ self.b.t() * 0.5))


class Merged(LowRank):
    """The addition is made to the weight."""

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(F.linear(x, self.weight.weight + self.b @ self.a, self.weight.bias)))


class LinearResidual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(3, 4), nn.Linear(4, 2)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 3, bias=False), nn.GELU(), nn.Linear(3, 4)) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class Gain(nn.Module):
    """A vector multiplies the inner axis: the matrices that may act are diagonal."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 4, bias=False), nn.Linear(4, 2)
        self.gain = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x) * self.gain)


class Shared(nn.Module):
    """One bottleneck is read by two layers, of which one is made of it twice."""

    def __init__(self, square: bool) -> None:
        super().__init__()
        self.first, self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 2)
        self.square = square

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        return self.a(h) + (self.b(h.square() if self.square else h)).tanh()


class Gram(nn.Module):
    """Inner products of hidden states: any orthogonal matrix may act, of which signs are found."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        return h @ h.t()


class Pooled(nn.Module):
    """Absolute values forget signs; maxima do not keep them."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.out = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.cat([self.a(x).abs().mean(1), self.b(x).amax(1)], 1))


class Experts(nn.Module):
    """A dense mixture: all experts run, weighted by a router."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(3, 2, bias=False)
        self.up, self.down = nn.Parameter(torch.randn(2, 4, 3)), nn.Parameter(torch.randn(2, 2, 4))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(torch.einsum("nx,ehx->neh", x, self.up))
        return torch.einsum("neh,eyh,ne->ny", h, self.down, self.router(x).softmax(-1))


class Attention(nn.Module):
    """Queries, keys and values in one layer; keys without a bias, as softmax would not see it."""

    def __init__(self, turned: bool = False) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(3, 18, bias=False), nn.Linear(6, 2)
        self.turned = turned

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, 3)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if self.turned:
            q, k = q.tanh(), k.tanh()
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).flatten(2))


class GroupedQueries(nn.Module):
    """Two query heads for each of two key and value heads."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(3, n, bias=False) for n in (12, 6, 6))
        self.proj = nn.Linear(12, 2)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).unflatten(-1, (2, 2, 3)).permute(0, 2, 3, 1, 4)
        k, v = (f(x).unflatten(-1, (2, 1, 3)).permute(0, 2, 3, 1, 4) for f in (self.k, self.v))
        y = ((q @ k.transpose(-2, -1)).softmax(-1)) @ v
        return self.proj(y.permute(0, 3, 1, 2, 4).flatten(2))


class Larger(nn.Module):
    """The larger of two layers, chosen by a comparison; and slices in another order, padded with ones."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.out = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.a(x), self.b(x)
        h = torch.where(a > b, a, b)
        return self.out(F.pad(torch.cat([h[:, 3:], h[:, :3]], 1), (1, 1), value=1.0))


class Biased(nn.Module):
    """Constants added to hidden neurons: all alike, or one for each."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(x)) + 1)


class Shifted(nn.Module):
    """One number is added to all hidden neurons."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.shift, self.last = nn.Linear(3, 4), nn.Linear(3, 1), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x) + self.shift(x))


class Pair(nn.Module):
    """A bilinear layer of a state and itself."""

    def __init__(self, layer: nn.Bilinear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, h: Tensor) -> Tensor:
        return self.layer(h, h)


def _rows() -> Tensor:
    return torch.randn(6, 3)


def _sequence() -> Tensor:
    return torch.randn(4, 5, 3)


def _mlp(*middle: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(3, 4), *middle, nn.Linear(4, 2))


SCALED = {
    "tanh_rnn": Scaled(
        lambda: Mean(nn.RNN(3, 4), 4),
        _sequence,
        """
        h1 sign rnn.weight_ih_l0+1 rnn.weight_hh_l0@0+1 rnn.weight_hh_l0@1+1 rnn.bias_ih_l0+1
            rnn.bias_hh_l0+1 out.weight+1
        """,
    ),
    "relu_rnn": Scaled(
        lambda: Mean(nn.RNN(3, 4, nonlinearity="relu"), 4),
        _sequence,
        """
        h1 positive rnn.weight_ih_l0+1 rnn.weight_hh_l0@0+1 rnn.weight_hh_l0@1-1 rnn.bias_ih_l0+1
            rnn.bias_hh_l0+1 out.weight-1
        """,
    ),
    "stacked_rnn": Scaled(
        lambda: Mean(nn.RNN(3, 4, 2), 4),
        _sequence,
        """
        h1 sign rnn.weight_ih_l0+1 rnn.weight_hh_l0@0+1 rnn.weight_hh_l0@1+1 rnn.bias_ih_l0+1
            rnn.bias_hh_l0+1 rnn.weight_ih_l1+1
        h2 sign rnn.weight_ih_l1+1 rnn.weight_hh_l1@0+1 rnn.weight_hh_l1@1+1 rnn.bias_ih_l1+1
            rnn.bias_hh_l1+1 out.weight+1
        """,
    ),
    "bidirectional_rnn": Scaled(
        lambda: Mean(nn.RNN(3, 4, bidirectional=True), 8),
        _sequence,
        """
        h1 sign rnn.weight_ih_l0+1 rnn.weight_hh_l0@0+1 rnn.weight_hh_l0@1+1 rnn.bias_ih_l0+1
            rnn.bias_hh_l0+1 out.weight[0]+1
        h2 sign rnn.weight_ih_l0_reverse+1 rnn.weight_hh_l0_reverse@0+1 rnn.weight_hh_l0_reverse@1+1
            rnn.bias_ih_l0_reverse+1 rnn.bias_hh_l0_reverse+1 out.weight[1]+1
        """,
    ),
    "lstm": Scaled(
        lambda: Mean(nn.LSTM(3, 4), 4),
        _sequence,
        """
        h1 sign rnn.weight_ih_l0[2]+1 rnn.weight_hh_l0[0]@1+1 rnn.weight_hh_l0[1]@1+1
            rnn.weight_hh_l0[2]@0+1 rnn.weight_hh_l0[2]@1+1 rnn.weight_hh_l0[3]@1+1 rnn.bias_ih_l0[2]+1
            rnn.bias_hh_l0[2]+1 out.weight+1
        """,
    ),
    "stacked_lstm": Scaled(
        lambda: Mean(nn.LSTM(3, 4, 2), 4),
        _sequence,
        """
        h1 sign rnn.weight_ih_l0[2]+1 rnn.weight_hh_l0[0]@1+1 rnn.weight_hh_l0[1]@1+1
            rnn.weight_hh_l0[2]@0+1 rnn.weight_hh_l0[2]@1+1 rnn.weight_hh_l0[3]@1+1 rnn.bias_ih_l0[2]+1
            rnn.bias_hh_l0[2]+1 rnn.weight_ih_l1[0]+1 rnn.weight_ih_l1[1]+1 rnn.weight_ih_l1[2]+1
            rnn.weight_ih_l1[3]+1
        h2 sign rnn.weight_ih_l1[2]+1 rnn.weight_hh_l1[0]@1+1 rnn.weight_hh_l1[1]@1+1
            rnn.weight_hh_l1[2]@0+1 rnn.weight_hh_l1[2]@1+1 rnn.weight_hh_l1[3]@1+1 rnn.bias_ih_l1[2]+1
            rnn.bias_hh_l1[2]+1 out.weight+1
        """,
    ),
    "lstm_projection": Scaled(
        lambda: Mean(nn.LSTM(3, 4, proj_size=2), 2),
        _sequence,
        """
        h1 sign rnn.weight_ih_l0[2]+1 rnn.weight_hh_l0[2]+1 rnn.bias_ih_l0[2]+1 rnn.bias_hh_l0[2]+1
            rnn.weight_hr_l0+1
        h2 linear rnn.weight_hh_l0[0]+1 rnn.weight_hh_l0[1]+1 rnn.weight_hh_l0[2]+1 rnn.weight_hh_l0[3]+1
            rnn.weight_hr_l0-1 out.weight+1
        """,
    ),
    "gru": Scaled(
        lambda: Mean(nn.GRU(3, 4), 4),
        _sequence,
        """
        h1 sign rnn.weight_ih_l0[2]+1 rnn.weight_hh_l0[0]@1+1 rnn.weight_hh_l0[1]@1+1
            rnn.weight_hh_l0[2]@0+1 rnn.weight_hh_l0[2]@1+1 rnn.bias_ih_l0[2]+1 rnn.bias_hh_l0[2]+1
            out.weight+1
        """,
    ),
    "loop_relu": Scaled(
        lambda: Loop(torch.relu),
        _sequence,
        """
        h1 positive first.weight+1 first.bias+1 loop.weight@0+1 loop.weight@1-1 loop.bias+1 out.weight-1
        """,
    ),
    "loop_sin": Scaled(
        lambda: Loop(torch.sin),
        _sequence,
        """
        h1 sign first.weight+1 first.bias+1 loop.weight@0+1 loop.weight@1+1 loop.bias+1 out.weight+1
        """,
    ),
    "loop_linear": Scaled(
        lambda: Loop(nn.Identity()),
        _sequence,
        """
        h1 linear first.weight+1 first.bias+1 loop.weight@0+1 loop.weight@1-1 loop.bias+1 out.weight-1
        """,
    ),
    "loop_silu": Scaled(lambda: Loop(F.silu), _sequence, ""),
    "autoencoder_relu": Scaled(lambda: Autoencoder(torch.relu), lambda: torch.randn(5, 6), ""),
    "autoencoder_tanh": Scaled(
        lambda: Autoencoder(torch.tanh),
        lambda: torch.randn(5, 6),
        """
        h1 sign encoder.weight+1
        """,
    ),
    "autoencoder_linear": Scaled(
        lambda: Autoencoder(nn.Identity()),
        lambda: torch.randn(5, 6),
        """
        h1 sign encoder.weight+1
        """,
    ),
    "swiglu_packed": Scaled(
        Packed,
        _rows,
        """
        h1 positive up.weight[1]+1 up.bias[1]+1 down.weight-1
        h1 sign up.weight[1]+1 up.bias[1]+1 down.weight+1
        """,
    ),
    "glu": Scaled(
        _mlp(nn.Linear(4, 8), nn.GLU()),
        _rows,
        """
        h1 linear 0.weight+1 0.bias+1 1.weight[0]-1 1.weight[1]-1
        h2 positive 1.weight[0]+1 1.bias[0]+1 3.weight-1
        h2 sign 1.weight[0]+1 1.bias[0]+1 3.weight+1
        """,
    ),
    "filters": Scaled(
        MultiplicativeFilters,
        lambda: torch.randn(6, 2),
        """
        h1 sign filters.0.weight+1 filters.0.bias+1 middle.weight+1
        h2 positive middle.weight+1 middle.bias+1 out.weight-1
        h2 sign filters.1.weight+1 filters.1.bias+1 out.weight+1
        h2 sign middle.weight+1 middle.bias+1 out.weight+1
        """,
    ),
    "low_rank": Scaled(
        LowRank,
        _rows,
        """
        h1 positive b+1 weight.weight+1 weight.bias+1 out.weight-1
        h2 linear a+1 b-1
        """,
    ),
    "low_rank_merged": Scaled(
        Merged,
        _rows,
        """
        h1 positive b+1 weight.weight+1 weight.bias+1 out.weight-1
        h2 linear a+1 b-1
        """,
    ),
    "linear_residual": Scaled(
        LinearResidual,
        _rows,
        """
        h1 linear embed.weight+1 embed.bias+1 head.weight-1 blocks.0.0.weight-1 blocks.0.2.weight+1
            blocks.0.2.bias+1 blocks.1.0.weight-1 blocks.1.2.weight+1 blocks.1.2.bias+1
        """,
    ),
    "gain": Scaled(
        Gain,
        _rows,
        """
        h1 positive gain+1 last.weight-1
        h1 positive first.weight+1 last.weight-1
        h1 sign gain+1 last.weight+1
        h1 sign first.weight+1 last.weight+1
        """,
    ),
    "shared": Scaled(
        lambda: Shared(False),
        _rows,
        """
        h1 linear first.weight+1 first.bias+1 a.weight-1 b.weight-1
        """,
    ),
    "shared_square": Scaled(
        lambda: Shared(True),
        _rows,
        """
        h1 positive first.weight+1 first.bias+1 a.weight-1 b.weight-2
        h1 sign first.weight+1 first.bias+1 a.weight+1
        """,
    ),
    "gram": Scaled(
        Gram,
        _rows,
        """
        h1 sign first.weight+1 first.bias+1
        """,
    ),
    "pooled": Scaled(
        Pooled,
        _sequence,
        """
        h1 positive a.weight+1 a.bias+1 out.weight[0]-1
        h1 sign a.weight+1 a.bias+1
        h2 positive b.weight+1 b.bias+1 out.weight[1]-1
        """,
    ),
    "experts": Scaled(
        Experts,
        _rows,
        """
        h2 positive up+1 down-1
        """,
    ),
    "attention": Scaled(
        Attention,
        _sequence,
        """
        h2 linear qkv.weight[0]+1 qkv.weight[1]-1
        h3 linear qkv.weight[2]+1 proj.weight-1
        """,
    ),
    "attention_tanh": Scaled(
        lambda: Attention(True),
        _sequence,
        """
        h2 sign qkv.weight[0]+1 qkv.weight[1]+1
        h3 linear qkv.weight[2]+1 proj.weight-1
        """,
    ),
    "grouped_queries": Scaled(
        GroupedQueries,
        _sequence,
        """
        h3 linear q.weight+1 k.weight-1
        h4 linear v.weight+1 proj.weight-1
        """,
    ),
    "shifted": Scaled(Shifted, _rows, ""),
    "larger": Scaled(
        Larger,
        lambda: torch.randn(40, 3),
        """
        h1 positive a.weight[0]+1 a.bias[0]+1 b.weight[0]+1 b.bias[0]+1 out.weight[2]-1
        h2 positive a.weight[1]+1 a.bias[1]+1 b.weight[1]+1 b.bias[1]+1 out.weight[1]-1
        """,
    ),
    "constant": Scaled(Biased, _rows, ""),
    "weight_norm": Scaled(
        lambda: nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), nn.Tanh(), nn.Linear(4, 2)
        ),
        _rows,
        """
        h1 positive 0.parametrizations.weight.original1+1
        h1 sign 0.bias+1 0.parametrizations.weight.original1+1 2.weight+1
        h1 sign 0.parametrizations.weight.original0+1 0.parametrizations.weight.original1+1
        """,
    ),
    "bilinear": Scaled(
        lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), Pair(nn.Bilinear(4, 4, 3)), nn.Linear(3, 2)),
        _rows,
        """
        h1 positive 0.weight+1 0.bias+1 2.layer.weight@1-1 2.layer.weight@2-1
        h2 linear 2.layer.weight+1 2.layer.bias+1 3.weight-1
        """,
    ),
    "relu6": Scaled(_mlp(nn.ReLU6()), _rows, ""),
    "prelu": Scaled(
        _mlp(nn.PReLU(4)),
        _rows,
        """
        h1 positive 0.weight+1 0.bias+1 2.weight-1
        """,
    ),
    "batch_norm": Scaled(
        _mlp(nn.BatchNorm1d(4), nn.ReLU()),
        _rows,
        """
        h1 positive 0.weight+1 0.bias+1 1.weight-1 1.running_mean+1
        h1 positive 1.weight+1 1.bias+1 3.weight-1
        h1 sign 0.weight+1 0.bias+1 1.weight+1 1.running_mean+1
        """,
    ),
    "layer_norm": Scaled(
        _mlp(nn.LayerNorm(4), nn.Linear(4, 4), nn.Tanh()),
        _rows,
        """
        h1 positive 1.weight+1 1.bias+1 2.weight-1
        h1 sign 1.weight+1 1.bias+1 2.weight+1
        h2 sign 2.weight+1 2.bias+1 4.weight+1
        """,
    ),
    "softmax": Scaled(_mlp(nn.Softmax(-1)), _rows, ""),
    "low_rank_convolution": Scaled(
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3, bias=False), nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 2, 1)
        ),
        lambda: torch.randn(2, 2, 6, 6),
        """
        c1 linear 0.weight+1 1.weight-1
        c2 positive 1.weight+1 1.bias+1 3.weight-1
        """,
    ),
    "one_neuron": Scaled(
        lambda: nn.Sequential(nn.Linear(3, 1), nn.Linear(1, 2)),
        _rows,
        """
        h1 linear 0.weight+1 0.bias+1 1.weight-1
        """,
    ),
}
