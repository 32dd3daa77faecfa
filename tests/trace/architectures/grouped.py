"""Grouped, depthwise and transposed convolutions, shuffles of channels and pixels."""

import torch
from torch import Tensor, nn

from architectures.known import Known


def shuffled(x: Tensor, groups: int) -> Tensor:
    batch, channels, height, width = x.shape
    x = x.view(batch, groups, channels // groups, height, width)
    return x.transpose(1, 2).reshape(batch, channels, height, width)


class ChannelShuffle(nn.Module):
    """A grouped convolution whose channels are shuffled before a dense one (arXiv:1707.01083)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.grouped = nn.Conv2d(3, 12, 1), nn.Conv2d(12, 12, 1, groups=3)
        self.out = nn.Conv2d(12, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.grouped(torch.relu(self.stem(x))))
        return self.out(shuffled(x, 3))


class ShuffledGroups(nn.Module):
    """Two grouped convolutions with a shuffle between them."""

    def __init__(self, channels: int, inner: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.stem, self.out = nn.Conv2d(3, channels, 1), nn.Conv2d(inner, 2, 1)
        self.first = nn.Conv2d(channels, channels, 1, groups=groups)
        self.second = nn.Conv2d(channels, inner, 1, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.sigmoid(self.first(torch.sigmoid(self.stem(x))))
        return self.out(torch.sigmoid(self.second(shuffled(x, self.groups))))


ROWS = {
    "separable": Known(
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 1),
            nn.ReLU6(),
            nn.Conv2d(6, 6, 3, padding=1, groups=6),
            nn.ReLU(),
            nn.Conv2d(6, 2, 1),
        ),
        lambda: torch.randn(2, 3, 5, 5),
        "6",
        """
        axes  c1: 6 hidden positive  x: 3 input  y: 2 output
        0.weight  c1 x _ _   _=1x1
        0.bias    c1
        2.weight  c1 _ _ _   _=1x3x3
        2.bias    c1
        4.weight  y c1 _ _   _=1x1
        4.bias    y
        scaling: c1 positive 2.weight+1 2.bias+1 4.weight-1
        """,
    ),
    "grouped": Known(
        lambda: nn.Sequential(
            nn.Conv2d(2, 6, 1), nn.Tanh(), nn.Conv2d(6, 4, 3, groups=2), nn.Sigmoid(), nn.Conv2d(4, 2, 1)
        ),
        lambda: torch.randn(2, 2, 5, 5),
        "2 2|2 3|2",
        """
        axes  c1: 2 hidden  c2: 3 hidden tanh sign  c3: 2 hidden sigmoid  x: 2 input  y: 2 output
        0.weight  (c1 c2[c1]) x _ _   _=1x1
        0.bias    (c1 c2[c1])
        2.weight  (c1 c3[c1]) c2[c1] _ _   _=3x3
        2.bias    (c1 c3[c1])
        4.weight  y (c1 c3[c1]) _ _   _=1x1
        4.bias    y
        scaling: c2 sign 0.weight+1 0.bias+1 2.weight+1
        """,
    ),
    "transposed": Known(
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(4, 6, 2, stride=2, groups=2),
            nn.Sigmoid(),
            nn.Conv2d(6, 1, 1),
        ),
        lambda: torch.randn(2, 1, 4, 4),
        "2 2|2 3|2",
        """
        axes  c1: 2 hidden  c2: 2 hidden relu positive  c3: 3 hidden sigmoid  x: 1 input  y: 1 output
        0.weight  (c1 c2[c1]) x _ _   _=3x3
        0.bias    (c1 c2[c1])
        2.weight  (c1 c2[c1]) c3[c1] _ _   _=2x2
        2.bias    (c1 c3[c1])
        4.weight  y (c1 c3[c1]) _ _   _=1x1
        4.bias    y
        scaling: c2 positive 0.weight+1 0.bias+1 2.weight-1
        """,
    ),
    "pixel_shuffle": Known(
        lambda: nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1),
            nn.PixelShuffle(2),
            nn.Conv2d(3, 5, 3, padding=1),
            nn.ReLU(),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Conv2d(5, 1, 1),
        ),
        lambda: torch.randn(2, 1, 4, 4),
        "3 5",
        """
        axes  c1: 3 hidden linear  c2: 5 hidden relu positive  x: 1 input  y: 1 output
        0.weight  (c1 2 2) x _ _   _=3x3
        0.bias    (c1 2 2)
        2.weight  c2 c1 _ _   _=3x3
        2.bias    c2
        5.weight  y c2 _ _   _=1x1
        5.bias    y
        scaling: c1 linear 0.weight+1 0.bias+1 2.weight-1
        scaling: c2 positive 2.weight+1 2.bias+1 5.weight-1
        """,
    ),
    "channel_shuffle": Known(
        ChannelShuffle,
        lambda: torch.randn(2, 3, 4, 4),
        "3 4|3^2",
        """
        axes  c1: 3 hidden relu  c2: 4 hidden relu positive  c3: 4 hidden relu positive
        axes  x: 3 input  y: 2 output
        stem.weight     (c1 c2[c1]) x _ _   _=1x1
        stem.bias       (c1 c2[c1])
        grouped.weight  (c1 c3[c1]) c2[c1] _ _   _=1x1
        grouped.bias    (c1 c3[c1])
        out.weight      y (c3[c1] c1) _ _   _=1x1
        out.bias        y
        scaling: c2 positive stem.weight+1 stem.bias+1 grouped.weight-1
        scaling: c3 positive grouped.weight+1 grouped.bias+1 out.weight-1
        """,
    ),
    "shuffled_groups": Known(
        lambda: ShuffledGroups(8, 6, 2), lambda: torch.randn(2, 3, 4, 4), "2^2 4|2 2|2,2 3|2"
    ),
    "shuffled_uneven_groups": Known(
        lambda: ShuffledGroups(12, 6, 3),
        lambda: torch.randn(2, 3, 4, 4),
        "2|3 4|3",
        missing="twelve channels are three groups of four on one side, four shuffled threes on the other: "
        "two may change places where they share a group on both sides",
    ),
}
