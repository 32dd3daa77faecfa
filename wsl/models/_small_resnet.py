"""Residual networks of a few thousand parameters."""

from torch import Tensor, nn

from wsl.models._activations import activation_module

RESNET_NORMS = ("batch", "layer")
"""``batch`` has running statistics; ``layer`` normalises all channels and pixels of one image together."""


class SmallResNet(nn.Module):
    """A convolution, stages of residual blocks, a mean over pixels and a linear layer.

    A stage after the first halves the image and doubles the channels, by a convolution between the stages;
    each block adds two normalised convolutions to its input, the normalisation first.

    Args:
        in_channels: of the images.
        width: channels of the first stage.
        blocks: of each stage.
        classes: outputs.
        activation: name of the activation, see :data:`wsl.models.ACTIVATIONS`.
        norm: one of :data:`RESNET_NORMS`.
        dropout: probability after the activation inside each block; has a part in training only.

    Shapes: input ``(B, in_channels, H, W)``, output ``(B, classes)``. Parameters are named ``stages.{i}``,
    the convolutions into each stage, ``blocks.{i}.{norm1,conv1,norm2,conv2}``, ``norm`` and ``dense``.

    Raises:
        ValueError: an unknown norm or activation.

    Source: He et al. 2016 (arXiv:1603.05027), figure 4 (e): activations before weights. Deviates: the steps
    from stage to stage are convolutions without a block.
    """

    def __init__(
        self,
        in_channels: int = 1,
        width: int = 8,
        blocks: tuple[int, ...] | list[int] = (1, 1, 1),
        classes: int = 10,
        activation: str = "relu",
        norm: str = "batch",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if norm not in RESNET_NORMS:
            raise ValueError(f"there is no norm {norm!r}; choose one of {', '.join(RESNET_NORMS)}.")
        self.stages, self.blocks, self.counts = nn.ModuleList(), nn.ModuleList(), tuple(blocks)
        channels = in_channels
        for stage, count in enumerate(self.counts):
            wider = width * 2**stage
            self.stages.append(nn.Conv2d(channels, wider, 3, 1 if stage == 0 else 2, 1))
            self.blocks.extend(_Block(wider, activation, norm, dropout) for _ in range(count))
            channels = wider
        self.norm, self.activation = _norm(norm, channels), activation_module(activation)
        self.dense = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        blocks = iter(self.blocks)
        for stage, count in zip(self.stages, self.counts, strict=True):
            x = stage(x)
            for _ in range(count):
                x = next(blocks)(x)
        out: Tensor = self.dense(self.activation(self.norm(x)).mean(dim=(2, 3)))
        return out


class _Block(nn.Module):
    def __init__(self, channels: int, activation: str, norm: str, dropout: float) -> None:
        super().__init__()
        self.norm1, self.activation1 = _norm(norm, channels), activation_module(activation)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm2, self.activation2 = _norm(norm, channels), activation_module(activation)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.conv1(self.activation1(self.norm1(x)))
        added: Tensor = self.conv2(self.dropout(self.activation2(self.norm2(inner))))
        return x + added


def _norm(norm: str, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if norm == "batch" else nn.GroupNorm(1, channels)
