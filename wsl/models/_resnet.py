"""ResNet-18 for small images, with the tensor names that are usual for it."""

import torch
from torch import Tensor, nn


class _BasicBlock(nn.Module):
    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = (
            nn.Identity()
            if stride == 1 and in_channels == channels
            else nn.Sequential(
                nn.Conv2d(in_channels, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        result: Tensor = self.relu(out + self.downsample(x))
        return result


class ResNet18(nn.Module):
    """ResNet-18 whose first convolution is 3x3 with stride 1, without the first pooling.

    Args:
        in_channels: of the images.
        classes: outputs.
        width: channels of the first stage; 64 as published, doubled from stage to stage.

    Shapes: input ``(B, in_channels, H, W)``, output ``(B, classes)``. Names are torchvision's: ``conv1``,
    ``bn1``, ``layer{1..4}.{0,1}.{conv1,bn1,conv2,bn2,downsample.0,downsample.1}``, ``fc``.

    Source: He et al. 2015 (arXiv:1512.03385); as in the ModelZoos (arXiv:2209.14764), appendix.
    """

    def __init__(self, in_channels: int = 3, classes: int = 10, width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        channels = width
        for stage in range(1, 5):
            wider = width * 2 ** (stage - 1)
            first = _BasicBlock(channels, wider, 1 if stage == 1 else 2)
            self.add_module(f"layer{stage}", nn.Sequential(first, _BasicBlock(wider, wider, 1)))
            channels = wider
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        for stage in range(1, 5):
            x = self.get_submodule(f"layer{stage}")(x)
        out: Tensor = self.fc(x.mean(dim=(2, 3)))
        return out

    def example_inputs(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Images of noise, of a size that the network runs on: ``(count, in_channels, 32, 32)``, normal."""
        return torch.randn(count, self.conv1.in_channels, 32, 32, generator=generator)
