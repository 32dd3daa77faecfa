"""Stacked networks of the CNN Wild Park."""

from collections.abc import Mapping

from torch import Tensor

from wsl.zoo.classifiers._layers import ACTIVATIONS, drop, pixel_mean, stacked_conv, stacked_linear
from wsl.zoo.classifiers._stack import ClassifierStack
from wsl.zoo.training import StackedDropout


class ParkCnnStack(ClassifierStack):
    """Stacked :class:`wsl.models.ParkCNN`."""

    def logits(
        self, tensors: Mapping[str, Tensor], images: Tensor, dropout: StackedDropout | None = None
    ) -> Tensor:
        networks, x = len(tensors["fc.bias"]), images
        outputs: list[Tensor] = []
        lists = (self.arguments[name] for name in ("activation", "stride", "padding", "residual"))
        for i, (activation, stride, padding, source) in enumerate(zip(*lists, strict=True)):
            weight, bias = tensors[f"layers.{i}.weight"], tensors[f"layers.{i}.bias"]
            x = stacked_conv(x, weight, bias, stride, padding)
            if source >= 0:
                _add_shared(x, outputs[source], networks)
            x = drop(ACTIVATIONS[activation].apply(x), networks, dropout)
            outputs.append(x)
        return stacked_linear(pixel_mean(x, networks), tensors["fc.weight"], tensors["fc.bias"])


def _add_shared(x: Tensor, source: Tensor, networks: int) -> None:
    """Add to a network's channels those that ``source`` has too; both ``(B, M * C, H, W)``, channels last."""
    target, other = (
        maps.permute(0, 2, 3, 1).unflatten(-1, (networks, maps.shape[1] // networks)) for maps in (x, source)
    )
    shared = min(target.shape[-1], other.shape[-1])
    target[..., :shared] += other[..., :shared]
