"""Convolutional networks without residual or skip connections."""

import torch
from torch import Tensor, nn

from architectures.known import Known


class SqueezeExcitation(nn.Module):
    """Channels weighted by a gate that sees their means (arXiv:1709.01507)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.squeeze, self.excite = nn.Linear(6, 4), nn.Linear(4, 6)
        self.out = nn.Conv2d(6, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(x.mean((2, 3))))))
        return self.out(x * gate[:, :, None, None])


class SpectralConvolution(nn.Module):
    """A filter in the frequency domain, channel by channel."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 5, 1), nn.Conv2d(5, 2, 1)
        self.filter = nn.Parameter(torch.randn(5, 4, 3))

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft2(torch.relu(self.first(x)))
        return self.last(torch.fft.irfft2(spectrum * self.filter, s=(4, 4)))


ROWS = {
    "alexnet": Known(
        lambda: nn.Sequential(
            nn.Sequential(
                nn.Conv2d(3, 4, 5, stride=2, padding=2),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(2),
                nn.Conv2d(4, 6, 3, padding=1),
                nn.ReLU(inplace=True),
                nn.Conv2d(6, 6, 3, padding=1),
                nn.ReLU(inplace=True),
                nn.AdaptiveAvgPool2d(2),
            ),
            nn.Flatten(),
            nn.Sequential(
                nn.Dropout(),
                nn.Linear(24, 8),
                nn.ReLU(inplace=True),
                nn.Dropout(),
                nn.Linear(8, 7),
                nn.ReLU(inplace=True),
                nn.Linear(7, 3),
            ),
        ),
        lambda: torch.randn(2, 3, 16, 16),
        "4 6^2 7 8",
        """
        axes  c1: 4 hidden relu positive  c2: 6 hidden relu positive  c3: 6 hidden relu positive
        axes  h1: 8 hidden relu positive  h2: 7 hidden relu positive  x: 3 input  y: 3 output
        0.0.weight  c1 x _ _   _=5x5
        0.0.bias    c1
        0.3.weight  c2 c1 _ _   _=3x3
        0.3.bias    c2
        0.5.weight  c3 c2 _ _   _=3x3
        0.5.bias    c3
        2.1.weight  h1 (c3 2 2)
        2.1.bias    h1
        2.4.weight  h2 h1
        2.4.bias    h2
        2.6.weight  y h2
        2.6.bias    y
        scaling: c1 positive 0.0.weight+1 0.0.bias+1 0.3.weight-1
        scaling: c2 positive 0.3.weight+1 0.3.bias+1 0.5.weight-1
        scaling: c3 positive 0.5.weight+1 0.5.bias+1 2.1.weight-1
        scaling: h1 positive 2.1.weight+1 2.1.bias+1 2.4.weight-1
        scaling: h2 positive 2.4.weight+1 2.4.bias+1 2.6.weight-1
        """,
    ),
    "vgg": Known(
        lambda: nn.Sequential(
            nn.Conv2d(1, 3, 3, padding=1),
            nn.BatchNorm2d(3),
            nn.ReLU(),
            nn.Conv2d(3, 4, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 5, 3),
            nn.ReLU(),
            nn.AvgPool2d(2, padding=1),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(20, 6),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(6, 2),
        ),
        lambda: torch.randn(1, 1, 12, 12),
        "3 4 5 6",
        """
        axes  c1: 3 hidden relu positive  c2: 4 hidden relu positive  c3: 5 hidden relu positive
        axes  h1: 6 hidden relu positive  x: 1 input  y: 2 output
        0.weight   c1 x _ _   _=3x3
        0.bias     c1
        1.weight   c1
        1.bias     c1
        1.running_mean  c1
        1.running_var   c1
        3.weight   c2 c1 _ _   _=3x3
        3.bias     c2
        6.weight   c3 c2 _ _   _=3x3
        6.bias     c3
        11.weight  h1 (c3 2 2)
        11.bias    h1
        14.weight  y h1
        14.bias    y
        scaling: c1 positive 0.weight+1 0.bias+1 1.weight-1 1.running_mean+1
        scaling: c1 positive 1.weight+1 1.bias+1 3.weight-1
        scaling: c1 sign 0.weight+1 0.bias+1 1.weight+1 1.running_mean+1
        scaling: c2 positive 3.weight+1 3.bias+1 6.weight-1
        scaling: c3 positive 6.weight+1 6.bias+1 11.weight-1
        scaling: h1 positive 11.weight+1 11.bias+1 14.weight-1
        """,
    ),
    "conv1d": Known(
        lambda: nn.Sequential(
            nn.Conv1d(2, 3, 3),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(3, 4, 1),
            nn.AdaptiveMaxPool1d(1),
            nn.Flatten(),
        ),
        lambda: torch.randn(2, 2, 8),
        "3",
        """
        axes  c1: 3 hidden relu positive  x: 2 input  y: 4 output
        0.weight  c1 x _   _=3
        0.bias    c1
        3.weight  y c1 _   _=1
        3.bias    y
        scaling: c1 positive 0.weight+1 0.bias+1 3.weight-1
        """,
    ),
    "conv3d": Known(
        lambda: nn.Sequential(
            nn.Conv3d(2, 3, 2, bias=False), nn.Tanh(), nn.AvgPool3d(2), nn.Conv3d(3, 2, 2, bias=False)
        ),
        lambda: torch.randn(2, 2, 6, 6, 6),
        "3",
        """
        axes  c1: 3 hidden tanh sign  x: 2 input  y: 2 output
        0.weight  c1 x _ _ _   _=2x2x2
        3.weight  y c1 _ _ _   _=2x2x2
        scaling: c1 sign 0.weight+1 3.weight+1
        """,
    ),
    "instance_norm": Known(
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.ReLU(), nn.Conv2d(4, 2, 3)
        ),
        lambda: torch.randn(2, 1, 6, 6),
        "4",
        """
        axes  c1: 4 hidden relu positive  x: 1 input  y: 2 output
        0.weight  c1 x _ _   _=3x3
        0.bias    c1
        1.weight  c1
        1.bias    c1
        3.weight  y c1 _ _   _=3x3
        3.bias    y
        scaling: c1 positive 1.weight+1 1.bias+1 3.weight-1
        scaling: c1 sign 0.weight+1 0.bias+1 1.weight+1
        """,
        dull=("0.bias along c1",),  # the norm takes away the mean of each channel
        missing="0.bias may take any value",
    ),
    "squeeze_excitation": Known(
        SqueezeExcitation,
        lambda: torch.randn(2, 3, 5, 5),
        "4 6",
        """
        axes  c1: 6 hidden sigmoid positive  h1: 4 hidden relu positive  x: 3 input  y: 2 output
        conv.weight     c1 x _ _   _=3x3
        conv.bias       c1
        squeeze.weight  h1 c1
        squeeze.bias    h1
        excite.weight   c1 h1
        excite.bias     c1
        out.weight      y c1 _ _   _=1x1
        out.bias        y
        scaling: c1 positive conv.weight+1 conv.bias+1 squeeze.weight-1 out.weight-1
        scaling: c1 sign conv.weight+1 conv.bias+1 squeeze.weight+1 out.weight+1
        scaling: h1 positive squeeze.weight+1 squeeze.bias+1 excite.weight-1
        """,
    ),
    "spectral_convolution": Known(
        SpectralConvolution,
        lambda: torch.randn(2, 1, 4, 4),
        "5",
        """
        axes  c1: 5 hidden relu positive  f1: 4 fixed  f2: 3 fixed  x: 1 input  y: 2 output
        filter        c1 f1 f2
        first.weight  c1 x _ _   _=1x1
        first.bias    c1
        last.weight   y c1 _ _   _=1x1
        last.bias     y
        scaling: c1 positive first.weight+1 first.bias+1 filter-1
        scaling: c1 positive filter+1 last.weight-1
        scaling: c1 sign filter+1 last.weight+1
        note: f1 _fft_r2c in SpectralConvolution
        note: f2 _fft_r2c in SpectralConvolution
        """,
    ),
}
