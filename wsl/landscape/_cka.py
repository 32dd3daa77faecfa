"""How alike the representations of two networks are."""

import torch
from torch import Tensor, nn


def linear_cka(x: Tensor, y: Tensor) -> Tensor:
    """Linear centred kernel alignment of two representations of the same inputs: a scalar in [0, 1].

    It is 1 for representations that are equal up to rotation and a common factor, and 0 where one of them is
    the same for all inputs.

    Args:
        x, y: ``(n, d)`` and ``(n, e)``, features of n inputs.

    Raises:
        ValueError: other shapes.

    Source: Kornblith et al. 2019 (arXiv:1905.00414), section 3: ``|Y'X|^2 / (|X'X| |Y'Y|)`` of centred
    features in Frobenius norms.
    """
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
        raise ValueError(f"expected features (n, d) and (n, e) of the same inputs, got {x.shape}, {y.shape}.")
    x, y = (z.double() - z.double().mean(0) for z in (x, y))
    spread = (x.T @ x).norm() * (y.T @ y).norm()
    return torch.where(spread == 0, spread, (y.T @ x).square().sum() / spread)


def output_features(module: nn.Module, inputs: Tensor) -> Tensor:
    """``(n, d)``: what the last linear layer of a classifier sees of its inputs ``(n, ...)``.

    Raises:
        ValueError: the outputs are not those of the module's last ``nn.Linear``.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    seen: list[Tensor] = []
    if layers:
        hook = layers[-1].register_forward_hook(lambda _, given, made: seen.extend((given[0], made)))
        try:
            with torch.no_grad():
                outputs = module.eval()(inputs)
        finally:
            hook.remove()
    if len(seen) != 2 or seen[1] is not outputs or seen[0].ndim != 2:
        raise ValueError(f"the outputs of {type(module).__name__} do not come from one last nn.Linear.")
    return seen[0]
