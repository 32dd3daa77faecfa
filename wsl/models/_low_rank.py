"""Low-rank updates of the weights of another network."""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn


class LowRankUpdates(nn.Module):
    """For each target module its low-rank update ``x -> scale * B A x``, on inputs of their own.

    Args:
        targets: name of a target module -> ``(rank, in_features, out_features)``.
        scale: ``alpha / rank`` of the adapter, one number or one for each target.
        prefix: put before the name of each target in the names of the parameters.

    Shapes: as many inputs as targets, ``(..., in_features)``; outputs ``(..., out_features)``. Parameters are
    named ``{prefix}{target}.lora_A.weight`` (rank, in) and ``{prefix}{target}.lora_B.weight`` (out, rank).

    Source: Hu et al. 2021 (arXiv:2106.09685), eq. 3; names as the PEFT library stores them.
    """

    def __init__(
        self,
        targets: Mapping[str, Sequence[int]],
        scale: float | Mapping[str, float] = 1.0,
        prefix: str = "base_model.model.",
    ) -> None:
        super().__init__()
        self.paths = tuple(f"{prefix}{name}" for name in targets)
        self.scales = tuple(float(scale[n]) if isinstance(scale, Mapping) else float(scale) for n in targets)
        for path, (rank, in_features, out_features) in zip(self.paths, targets.values(), strict=True):
            pair = nn.ModuleDict(
                {
                    "lora_A": nn.Linear(in_features, rank, bias=False),
                    "lora_B": nn.Linear(rank, out_features, bias=False),
                }
            )
            _place(self, path, pair)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        outputs = []
        for path, scale, x in zip(self.paths, self.scales, inputs, strict=True):
            lora_a, lora_b = (self.get_submodule(f"{path}.{part}") for part in ("lora_A", "lora_B"))
            outputs.append(scale * lora_b(lora_a(x)))
        return tuple(outputs)


def _place(root: nn.Module, path: str, module: nn.Module) -> None:
    """Add a module at a dotted path, with empty modules on the way."""
    *parents, last = path.split(".")
    for name in parents:
        children = dict(root.named_children())
        if name not in children:
            root.add_module(name, nn.Module())
        root = root.get_submodule(name)
    if last in dict(root.named_children()):
        for name, child in module.named_children():
            root.get_submodule(last).add_module(name, child)
    else:
        root.add_module(last, module)
