"""The head of the baseline that knows no symmetries."""

import torch
from torch import Tensor, nn

from wsl.nn._heads import Features, require
from wsl.spec import WeightSpec


class FlatHead(nn.Module):
    """An update of every weight by a linear map of one vector: not equivariant.

    Reads what :class:`wsl.encoders.FlatMLP` gives, whose features are the same vector at every weight.

    Args:
        spec: the specification of the weights; the head's parameters depend on it.
        channels: width of the encoder's output.
        scale: standard deviation of the first updates, about.

    Shapes: ``WeightFeatures`` of ``B`` networks to a ``dict`` of name to ``(B, *shape)``, as the weights.

    Raises:
        SpecError: the encoder gives no features for some block.
    """

    def __init__(self, spec: WeightSpec, channels: int, scale: float = 0.01) -> None:
        super().__init__()
        self.spec = spec
        self.views = {ref.key: tuple(ref.block.view) for ref in spec.blocks}
        self.linear = nn.Linear(channels, spec.parameter_count)
        self.gain = nn.Parameter(torch.tensor(scale))

    def forward(self, features: Features) -> dict[str, Tensor]:
        require("tensors", "blocks", features.tensors, self.views)
        first = features.tensors[next(iter(self.views))]
        vector = first.reshape(len(first), -1, first.shape[-1])[:, 0]
        update, blocks = self.linear(vector) * self.gain, {}
        sizes = [torch.Size(view).numel() for view in self.views.values()]
        for (key, view), part in zip(self.views.items(), update.split(sizes, dim=1), strict=True):
            blocks[key] = part.unflatten(1, view) if view else part.squeeze(1)
        return self.spec.join(blocks)
