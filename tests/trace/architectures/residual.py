"""Convolutional networks with residual connections."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from architectures.known import Known


class ResidualStage(nn.Module):
    """A stem and two pre-activation-free blocks of a ResNet: one axis runs through the whole stage."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.inner = nn.ModuleList(nn.Conv2d(4, 5, 3, padding=1, bias=False) for _ in range(2))
        self.outer = nn.ModuleList(nn.Conv2d(5, 4, 3, padding=1, bias=False) for _ in range(2))
        self.down = nn.Conv2d(4, 6, 1, stride=2, bias=False)
        self.fc = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn(self.stem(x)))
        for inner, outer in zip(self.inner, self.outer, strict=True):
            x = F.relu(x + outer(F.relu(inner(x))))
        return self.fc(F.relu(self.down(x)).mean((2, 3)))


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        y += self.shortcut(x)
        return F.relu(y)


class ResNet20(nn.Module):
    """The layout for CIFAR-10 (arXiv:1512.03385), ``width`` channels in the first stage."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(*(BasicBlock(width, width) for _ in range(3)))
        for stage, inputs in ((2, width), (3, 2 * width)):
            blocks = [BasicBlock(inputs, 2 * inputs, 2), *(BasicBlock(2 * inputs, 2 * inputs) for _ in "12")]
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.linear = nn.Linear(4 * width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(F.avg_pool2d(x, x.shape[-1]).flatten(1))


def rebasin_resnet20() -> dict[str, tuple[str | None, ...]]:
    """The axes of ResNet-20 as Git Re-Basin writes them by hand (arXiv:2209.04836).

    Source: ``resnet20_permutation_spec`` there. ``P_bg0`` to ``P_bg2`` are the residual streams,
    ``None`` dimensions are not permuted.
    """
    found: dict[str, tuple[str | None, ...]] = {}

    def conv(name: str, inputs: str | None, outputs: str) -> None:
        found[f"{name}.weight"] = (outputs, inputs, None, None)

    def norm(name: str, axis: str) -> None:
        for part in ("weight", "bias", "running_mean", "running_var"):
            found[f"{name}.{part}"] = (axis,)

    conv("conv1", None, "P_bg0")
    norm("bn1", "P_bg0")
    for stage, (first, stream) in enumerate([("P_bg0", "P_bg0"), ("P_bg0", "P_bg1"), ("P_bg1", "P_bg2")], 1):
        for block in range(3):
            name, inputs = f"layer{stage}.{block}", stream if block else first
            conv(f"{name}.conv1", inputs, f"P_{name}_inner")
            norm(f"{name}.bn1", f"P_{name}_inner")
            conv(f"{name}.conv2", f"P_{name}_inner", stream)
            norm(f"{name}.bn2", stream)
            if inputs != stream:
                conv(f"{name}.shortcut.0", inputs, stream)
                norm(f"{name}.shortcut.1", stream)
    return {**found, "linear.weight": (None, "P_bg2"), "linear.bias": (None,)}


class Bottleneck(nn.Module):
    """A block of ResNet-50, with expansion 2."""

    def __init__(self, inputs: int, inner: int, stride: int = 1) -> None:
        super().__init__()
        sizes = (inputs, inner, inner, 2 * inner)
        self.convs = nn.ModuleList(
            nn.Conv2d(a, b, k, s, k // 2, bias=False)
            for a, b, k, s in zip(sizes, sizes[1:], (1, 3, 1), (1, stride, 1), strict=False)
        )
        self.norms = nn.ModuleList(map(nn.BatchNorm2d, sizes[1:]))
        self.downsample: nn.Module | None = None
        if inputs != 2 * inner:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, 2 * inner, 1, stride, bias=False), nn.BatchNorm2d(2 * inner)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            y = norm(conv(F.relu(y) if i else y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class InvertedResidual(nn.Module):
    """A block of MobileNet v2 (arXiv:1801.04381)."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(),
            nn.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(),
            nn.Conv2d(inner, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x)


def pooled(*layers: nn.Module, channels: int) -> nn.Sequential:
    """Layers of ``channels`` outputs, pooled over all pixels and read by a linear layer."""
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 3))


ROWS = {
    "residual_stage": Known(
        ResidualStage,
        lambda: torch.randn(2, 3, 4, 4),
        "4 5^2 6",
        """
        axes  c1: 4 hidden relu positive  c2: 5 hidden relu positive  c3: 5 hidden relu positive
        axes  c4: 6 hidden relu positive  x: 3 input  y: 2 output
        stem.weight      c1 x _ _    _=3x3
        bn.weight        c1
        bn.bias          c1
        bn.running_mean  c1
        bn.running_var   c1
        inner.0.weight   c2 c1 _ _   _=3x3
        inner.1.weight   c3 c1 _ _   _=3x3
        outer.0.weight   c1 c2 _ _   _=3x3
        outer.1.weight   c1 c3 _ _   _=3x3
        down.weight      c4 c1 _ _   _=1x1
        fc.weight        y c4
        fc.bias          y
        scaling: c1 positive stem.weight+1 bn.weight-1 bn.running_mean+1
        scaling: c1 positive bn.weight+1 bn.bias+1 inner.0.weight-1 inner.1.weight-1 outer.0.weight+1 outer.1.weight+1 down.weight-1
        scaling: c1 sign stem.weight+1 bn.weight+1 bn.running_mean+1
        scaling: c2 positive inner.0.weight+1 outer.0.weight-1
        scaling: c3 positive inner.1.weight+1 outer.1.weight-1
        scaling: c4 positive down.weight+1 fc.weight-1
        """,  # noqa: E501
    ),
    "resnet20": Known(lambda: ResNet20(4), lambda: torch.randn(2, 3, 8, 8), "4^4 8^4 16^4"),
    "resnet_bottleneck": Known(
        lambda: pooled(
            nn.Conv2d(3, 4, 7, 2, 3, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            Bottleneck(4, 3),
            Bottleneck(6, 3),
            Bottleneck(6, 5, stride=2),
            Bottleneck(10, 5),
            channels=10,
        ),
        lambda: torch.randn(2, 3, 16, 16),
        "3^4 4 5^4 6 10",
    ),
    "inverted_residual": Known(
        lambda: pooled(
            nn.Conv2d(3, 4, 3), InvertedResidual(4, 6), nn.ReLU(), InvertedResidual(4, 6), channels=4
        ),
        lambda: torch.randn(2, 3, 6, 6),
        "4 6^2",
    ),
}
