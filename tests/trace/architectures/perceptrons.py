"""Multilayer perceptrons: activations, norms, gates, flattened images."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from architectures.known import Known


class SwiGLU(nn.Module):
    """Both halves of the gate in one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.both, self.down = nn.Linear(3, 10), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.both(x).chunk(2, -1)
        return self.down(F.silu(gate) * value)


class Bilinear(nn.Module):
    """Products of two linear layers, as in Chrysos et al. (arXiv:2003.03828)."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.out = nn.Linear(3, 5), nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.left(x) * self.right(x))


class Mixer(nn.Module):
    """Mixes tokens, then channels: tokens are inputs to a layer here, so that they have an axis."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 6)
        self.norm = nn.LayerNorm(6)
        self.tokens = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 4))
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return self.head(x.mean(1))


ROWS = {
    "mlp": Known(
        lambda: nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 1)),
        lambda: torch.randn(7, 2),
        "5^2",
        """
        axes  h1: 5 hidden relu positive  h2: 5 hidden relu positive  x: 2 input  y: 1 output
        0.weight  h1 x
        0.bias    h1
        2.weight  h2 h1
        2.bias    h2
        4.weight  y h2
        4.bias    y
        scaling: h1 positive 0.weight+1 0.bias+1 2.weight-1
        scaling: h2 positive 2.weight+1 2.bias+1 4.weight-1
        """,
    ),
    "activations": Known(
        lambda: nn.Sequential(
            nn.Linear(2, 3),
            nn.LeakyReLU(0.2),
            nn.Linear(3, 3, bias=False),
            nn.Tanh(),
            nn.Linear(3, 3),
            nn.GELU(),
            nn.Linear(3, 3),
            nn.SiLU(),
            nn.Linear(3, 3),
            nn.Sigmoid(),
            nn.Dropout(0.5),
            nn.Linear(3, 3),
            nn.Identity(),
            nn.Linear(3, 2),
            nn.Softmax(1),
        ),
        lambda: torch.randn(7, 2),
        "3^6",
        """
        axes  h1: 3 hidden leaky_relu positive  h2: 3 hidden tanh sign  h3: 3 hidden gelu
        axes  h4: 3 hidden silu  h5: 3 hidden sigmoid  h6: 3 hidden linear  x: 2 input  y: 2 output
        0.weight   h1 x
        0.bias     h1
        2.weight   h2 h1
        4.weight   h3 h2
        4.bias     h3
        6.weight   h4 h3
        6.bias     h4
        8.weight   h5 h4
        8.bias     h5
        11.weight  h6 h5
        11.bias    h6
        13.weight  y h6
        13.bias    y
        scaling: h1 positive 0.weight+1 0.bias+1 2.weight-1
        scaling: h2 sign 2.weight+1 4.weight+1
        scaling: h6 linear 11.weight+1 11.bias+1 13.weight-1
        """,
        missing="the softmax over outputs does not see a shift of all logits: no symmetry of an axis",
    ),
    "flattened_image": Known(
        lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, 8), nn.Unflatten(1, (2, 4))
        ),
        lambda: torch.randn(1, 1, 4, 4),
        "5",
        """
        axes  h1: 5 hidden relu positive  x: 16 input  y: 8 output
        1.weight  h1 x
        1.bias    h1
        3.weight  y h1
        3.bias    y
        scaling: h1 positive 1.weight+1 1.bias+1 3.weight-1
        """,
    ),
    "group_norm": Known(
        lambda: nn.Sequential(nn.Linear(3, 6), nn.GroupNorm(2, 6), nn.ReLU(), nn.Linear(6, 2)),
        lambda: torch.randn(4, 3),
        "2 3|2",
        """
        axes  h1: 2 hidden relu sign  h2: 3 hidden relu positive  x: 3 input  y: 2 output
        0.weight  (h1 h2[h1]) x
        0.bias    (h1 h2[h1])
        1.weight  (h1 h2[h1])
        1.bias    (h1 h2[h1])
        3.weight  y (h1 h2[h1])
        3.bias    y
        scaling: h1 sign 0.weight+1 0.bias+1 1.weight+1
        scaling: h2 positive 1.weight+1 1.bias+1 3.weight-1
        """,
    ),
    "layer_norm": Known(
        lambda: nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 2)),
        lambda: torch.randn(4, 3),
        "5",
        """
        axes  h1: 5 hidden positive  x: 3 input  y: 2 output
        0.weight  h1 x
        0.bias    h1
        1.weight  h1
        1.bias    h1
        2.weight  y h1
        2.bias    y
        scaling: h1 positive 1.weight+1 1.bias+1 2.weight-1
        scaling: h1 sign 1.weight+1 1.bias+1 2.weight+1
        """,
        missing="a common shift of the normalised neurons: no symmetry of an axis",
    ),
    "rms_norm": Known(
        lambda: nn.Sequential(nn.Linear(3, 5), nn.RMSNorm(5), nn.Linear(5, 2)),
        lambda: torch.randn(4, 3),
        "5",
        """
        axes  h1: 5 hidden positive  x: 3 input  y: 2 output
        0.weight  h1 x
        0.bias    h1
        1.weight  h1
        2.weight  y h1
        2.bias    y
        scaling: h1 positive 1.weight+1 2.weight-1
        scaling: h1 sign 0.weight+1 0.bias+1 1.weight+1
        scaling: h1 sign 1.weight+1 2.weight+1
        """,
        missing="rotations of the neurons, once the norm's weight is absorbed by the next layer",
    ),
    "batch_norm": Known(
        lambda: nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.PReLU(5), nn.Linear(5, 2)),
        lambda: torch.randn(4, 3),
        "5",
        """
        axes  h1: 5 hidden prelu positive  x: 3 input  y: 2 output
        0.weight        h1 x
        0.bias          h1
        1.weight        h1
        1.bias          h1
        1.running_mean  h1
        1.running_var   h1
        2.weight        h1
        3.weight        y h1
        3.bias          y
        scaling: h1 positive 0.weight+1 0.bias+1 1.weight-1 1.running_mean+1
        scaling: h1 positive 1.weight+1 1.bias+1 3.weight-1
        scaling: h1 sign 0.weight+1 0.bias+1 1.weight+1 1.running_mean+1
        """,
        missing="PReLU's slope inverted with the signs of its neuron flipped: no scaling",
    ),
    "swiglu": Known(
        SwiGLU,
        lambda: torch.randn(4, 3),
        "5",
        """
        axes  h1: 5 hidden silu positive  x: 3 input  y: 2 output
        both.weight  (h1 + h1) x
        both.bias    (h1 + h1)
        down.weight  y h1
        down.bias    y
        scaling: h1 positive both.weight[1]+1 both.bias[1]+1 down.weight-1
        scaling: h1 sign both.weight[1]+1 both.bias[1]+1 down.weight+1
        """,
    ),
    "glu": Known(
        lambda: nn.Sequential(nn.Linear(3, 10), nn.GLU(-1), nn.Linear(5, 2)),
        lambda: torch.randn(4, 3),
        "5",
        """
        axes  h1: 5 hidden sigmoid positive  x: 3 input  y: 2 output
        0.weight  (h1 + h1) x
        0.bias    (h1 + h1)
        2.weight  y h1
        2.bias    y
        scaling: h1 positive 0.weight[0]+1 0.bias[0]+1 2.weight-1
        scaling: h1 sign 0.weight[0]+1 0.bias[0]+1 2.weight+1
        """,
    ),
    "bilinear": Known(
        Bilinear,
        lambda: torch.randn(4, 3),
        "5",
        """
        axes  h1: 5 hidden positive  x: 3 input  y: 2 output
        left.weight   h1 x
        left.bias     h1
        right.weight  h1 x
        right.bias    h1
        out.weight    y h1
        out.bias      y
        scaling: h1 positive left.weight+1 left.bias+1 out.weight-1
        scaling: h1 positive right.weight+1 right.bias+1 out.weight-1
        scaling: h1 sign left.weight+1 left.bias+1 out.weight+1
        scaling: h1 sign right.weight+1 right.bias+1 out.weight+1
        """,
        missing="a * b = b * a: the two layers may change places, for each neuron alone",
    ),
    "mixer": Known(
        Mixer,
        lambda: torch.randn(5, 4, 3),
        "5 6",
        """
        axes  h1: 6 hidden gelu  h2: 5 hidden gelu  x: 3 input  x2: 4 input  y: 2 output
        embed.weight     h1 x
        embed.bias       h1
        norm.weight      h1
        norm.bias        h1
        tokens.0.weight  h2 x2
        tokens.0.bias    h2
        tokens.2.weight  x2 h2
        tokens.2.bias    x2
        head.weight      y h1
        head.bias        y
        """,
    ),
}
