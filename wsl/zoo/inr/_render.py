"""The images that a zoo's INRs hold."""

import torch
from torch import Tensor
from torch.func import functional_call

from wsl.zoo._errors import ZooError
from wsl.zoo._map import Rows
from wsl.zoo._store import Zoo


def render(zoo: Zoo, rows: Rows = None, *, batch: int = 256) -> Tensor:
    """Run INRs on their pixel grid, whatever their architecture.

    Args:
        zoo: an INR zoo; its forward definition says how the networks run.
        rows: row numbers, a boolean mask, a slice, or None for all.
        batch: networks that run at once.

    Returns:
        ``(n, H, W)``, or ``(n, H, W, C)`` for several channels; clipped to [0, 1].

    Raises:
        ZooError: the zoo has no grid, so it holds no INRs; or a row that does not exist.
    """
    forward = zoo.forward
    if forward.grid is None:
        raise ZooError(f"{zoo.path} has no coordinate grid: its networks are no INRs and cannot be rendered.")
    if batch < 1:
        raise ZooError(f"batch is {batch}, expected at least 1.")
    module = forward.build()
    points = forward.points()

    def run(weights: dict[str, Tensor]) -> Tensor:
        output: Tensor = functional_call(module, weights, (points,))
        return output

    weights = zoo.weights(rows)
    count = len(next(iter(weights.values())))
    images = [
        torch.func.vmap(run)({name: tensor[start : start + batch] for name, tensor in weights.items()})
        for start in range(0, count, batch)
    ]
    with torch.no_grad():
        outputs = torch.cat(images) if images else torch.empty(0, len(points), forward.channels)
        signals = forward.signal(outputs).clamp(0, 1)
    return signals.reshape(count, *forward.grid, *([forward.channels] if forward.channels > 1 else []))
