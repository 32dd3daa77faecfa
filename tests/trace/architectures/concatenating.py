"""Convolutional networks that concatenate: dense blocks, U-Nets, branches."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from architectures.known import Known


class DenseBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c0 = nn.Conv2d(1, 4, 3, padding=1)
        self.c1 = nn.Conv2d(4, 3, 3, padding=1)
        self.c2 = nn.Conv2d(7, 3, 3, padding=1)
        self.bn = nn.BatchNorm2d(10)
        self.fc = nn.Linear(10, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.c0(x))
        x = torch.cat([x, F.relu(self.c1(x))], 1)
        x = torch.cat([x, F.relu(self.c2(x))], 1)
        return self.fc(F.adaptive_avg_pool2d(self.bn(x), 1).flatten(1))


class DenseTransition(nn.Module):
    """Two pre-activation layers of a DenseNet and a transition (arXiv:1608.06993)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norms = nn.ModuleList(map(nn.BatchNorm2d, (8, 12, 16)))
        self.layers = nn.ModuleList(nn.Conv2d(size, 4, 3, padding=1) for size in (8, 12))
        self.transition = nn.Conv2d(16, 6, 1)
        self.fc = nn.Linear(6 * 4 * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for norm, layer in zip(self.norms, self.layers, strict=False):
            x = torch.cat([x, layer(F.relu(norm(x)))], 1)
        return self.fc(F.avg_pool2d(self.transition(F.relu(self.norms[2](x))), 2).flatten(1))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(2, 4, 3, padding=1)
        self.middle = nn.Conv2d(4, 6, 3, padding=1)
        self.up = nn.ConvTranspose2d(6, 5, 2, stride=2)
        self.join = nn.Conv2d(9, 3, 3, padding=1)
        self.out = nn.Conv2d(3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip = F.silu(self.down(x))
        x = F.silu(self.middle(F.max_pool2d(skip, 2)))
        return self.out(F.silu(self.join(torch.cat([self.up(x), skip], 1))))


class NormedUNet(nn.Module):
    """Two levels, group normalisation after the join."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.middle = nn.Conv2d(16, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.join, self.norm = nn.Conv2d(16, 8, 3, padding=1), nn.GroupNorm(4, 8)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip = F.silu(self.down1(x))
        x = F.silu(self.middle(F.silu(self.down2(F.max_pool2d(skip, 2)))))
        return self.out(F.silu(self.norm(self.join(torch.cat([self.up(x), skip], 1)))))


class ConcatFlatten(nn.Module):
    """Two convolutions side by side, flattened together: a sum of products."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(1, 4, 3, padding=1)
        self.b = nn.Conv2d(1, 3, 3, padding=1)
        self.fc = nn.Linear(7 * 16, 5)
        self.head = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        both = torch.cat([F.relu(self.a(x)), torch.tanh(self.b(x))], 1)
        return self.head(F.gelu(self.fc(both.flatten(1))))


ROWS = {
    "dense_block": Known(
        DenseBlock,
        lambda: torch.randn(2, 1, 4, 4),
        "3^2 4",
        """
        axes  c1: 4 hidden relu positive  c2: 3 hidden relu positive  c3: 3 hidden relu positive
        axes  x: 1 input  y: 2 output
        c0.weight        c1 x _ _   _=3x3
        c0.bias          c1
        c1.weight        c2 c1 _ _   _=3x3
        c1.bias          c2
        c2.weight        c3 (c1 + c2) _ _   _=3x3
        c2.bias          c3
        bn.weight        (c1 + c2 + c3)
        bn.bias          (c1 + c2 + c3)
        bn.running_mean  (c1 + c2 + c3)
        bn.running_var   (c1 + c2 + c3)
        fc.weight        y (c1 + c2 + c3)
        fc.bias          y
        scaling: c1 positive c0.weight+1 c0.bias+1 c1.weight-1 c2.weight[0]-1 bn.weight[0]-1 bn.running_mean[0]+1
        scaling: c1 positive bn.weight[0]+1 bn.bias[0]+1 fc.weight[0]-1
        scaling: c1 sign bn.weight[0]+1 bn.bias[0]+1 fc.weight[0]+1
        scaling: c2 positive c1.weight+1 c1.bias+1 c2.weight[1]-1 bn.weight[1]-1 bn.running_mean[1]+1
        scaling: c2 positive bn.weight[1]+1 bn.bias[1]+1 fc.weight[1]-1
        scaling: c2 sign bn.weight[1]+1 bn.bias[1]+1 fc.weight[1]+1
        scaling: c3 positive c2.weight[0]+1 c2.weight[1]+1 c2.bias+1 bn.weight[2]-1 bn.running_mean[2]+1
        scaling: c3 positive bn.weight[2]+1 bn.bias[2]+1 fc.weight[2]-1
        scaling: c3 sign bn.weight[2]+1 bn.bias[2]+1 fc.weight[2]+1
        """,  # noqa: E501
    ),
    "densenet": Known(DenseTransition, lambda: torch.randn(2, 3, 8, 8), "4^2 6 8"),
    "unet": Known(
        UNet,
        lambda: torch.randn(2, 2, 4, 4),
        "3 4 5 6",
        """
        axes  c1: 4 hidden silu  c2: 6 hidden silu  c3: 5 hidden linear  c4: 3 hidden silu
        axes  x: 2 input  y: 1 output
        down.weight    c1 x _ _   _=3x3
        down.bias      c1
        middle.weight  c2 c1 _ _   _=3x3
        middle.bias    c2
        up.weight      c2 c3 _ _   _=2x2
        up.bias        c3
        join.weight    c4 (c3 + c1) _ _   _=3x3
        join.bias      c4
        out.weight     y c4 _ _   _=1x1
        out.bias       y
        scaling: c3 linear up.weight+1 up.bias+1 join.weight[0]-1
        """,
    ),
    "unet_group_norm": Known(NormedUNet, lambda: torch.randn(2, 1, 8, 8), "4 8^2 16^2 2|4"),
    "concat_flatten": Known(
        ConcatFlatten,
        lambda: torch.randn(2, 1, 4, 4),
        "3 4 5",
        """
        axes  c1: 4 hidden relu positive  c2: 3 hidden tanh sign  h1: 5 hidden gelu  x: 1 input  y: 2 output
        a.weight     c1 x _ _   _=3x3
        a.bias       c1
        b.weight     c2 x _ _   _=3x3
        b.bias       c2
        fc.weight    h1 (c1 4 4 + c2 4 4)
        fc.bias      h1
        head.weight  y h1
        head.bias    y
        scaling: c1 positive a.weight+1 a.bias+1 fc.weight[0]-1
        scaling: c2 sign b.weight+1 b.bias+1 fc.weight[1]+1
        """,
    ),
}
