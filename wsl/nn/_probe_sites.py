"""Finding which output of which module shows which neuron axis, by experiment."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from wsl.spec import WeightSpec

_TOLERANCE = 1e-8


class Call(NamedTuple):
    """One tensor that a module returned: the module's name, which of its calls, which of its outputs."""

    module: str
    call: int
    output: int


class Site(NamedTuple):
    """Where an axis shows: a dimension of a recorded output."""

    call: Call
    dim: int


class Recorder(dict[Call, Tensor]):
    """Records what the submodules of a module return, while it is entered; in the order of return."""

    def __init__(self, module: nn.Module, wanted: Collection[Call] | None = None) -> None:
        super().__init__()
        self._wanted = wanted
        names = None if wanted is None else {call.module for call in wanted}
        self._modules = {name: m for name, m in module.named_modules() if names is None or name in names}
        self._counts: Counter[str] = Counter()
        self._hooks: list[Any] = []

    def __enter__(self) -> "Recorder":
        for name, module in self._modules.items():
            self._hooks.append(module.register_forward_hook(self._hook(name)))
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for hook in self._hooks:
            hook.remove()

    def _hook(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def record(module: nn.Module, args: Any, output: Any) -> None:
            outputs = output if isinstance(output, tuple | list) else (output,)
            for i, tensor in enumerate(outputs):
                call = Call(name, self._counts[name], i)
                if isinstance(tensor, Tensor) and (self._wanted is None or call in self._wanted):
                    self[call] = tensor
            self._counts[name] += 1

        return record


def find_sites(
    module: nn.Module, spec: WeightSpec, run: Callable[[Mapping[str, Tensor]], Recorder]
) -> dict[str, Site]:
    """The last module output that shows each hidden and output axis of ``spec``; axes that none shows lack.

    Axes of families are not looked for: other axes have to tell their neurons apart.

    An output shows an axis along a dimension if permuting the axis in random weights permutes the output
    along that dimension and changes nothing else. An axis of one neuron has no permutations; it is looked up
    as the output of the last linear or convolutional module whose weight has it on its output dimension.

    Args:
        module: the network, for the kinds of its submodules.
        spec: the specification of its weights.
        run: runs the network with given weights (unbatched, float64) and returns its recorded outputs.
    """
    weights = _random_weights(spec)
    before = run(weights)
    sites = {}
    for axis in spec.axes.values():
        if axis.kind not in ("hidden", "output") or axis.family:
            continue
        if axis.size == 1:
            site = _produced(module, spec, axis.name, before)
        else:
            permutation = torch.arange(axis.size).roll(1)
            after = run(_permuted(spec, weights, axis.name, permutation))
            site = _shown(before, after, permutation)
        if site is not None:
            sites[axis.name] = site
    return sites


def _random_weights(spec: WeightSpec) -> dict[str, Tensor]:
    """Generic weights of moderate scale, all positive where they are variances or gains."""
    generator = torch.Generator().manual_seed(0)
    weights = {}
    for name, tensor in spec.tensors.items():
        drawn = torch.rand(tensor.shape, generator=generator, dtype=torch.float64)
        fan_in = max(1, drawn.numel() // max(1, drawn.shape[0])) if drawn.dim() > 1 else 1
        weights[name] = (3 * (drawn - 0.5)) / fan_in**0.5 if drawn.dim() > 1 else 0.5 + drawn
    return weights


def _permuted(
    spec: WeightSpec, weights: Mapping[str, Tensor], axis: str, permutation: Tensor
) -> dict[str, Tensor]:
    blocks = spec.split({name: tensor.unsqueeze(0) for name, tensor in weights.items()})
    for ref in spec.blocks:
        for dim, name in enumerate(ref.block.axes):
            if name == axis:
                blocks[ref.key] = blocks[ref.key].index_select(dim + 1, permutation)
    return {name: tensor.squeeze(0) for name, tensor in spec.join(blocks).items()}


def _shown(before: Recorder, after: Recorder, permutation: Tensor) -> Site | None:
    found = None
    for call, output in before.items():
        scale = (
            _TOLERANCE * (1 + output.abs().max().item())
            if output.is_floating_point() and output.numel()
            else 0
        )
        if not scale or not torch.isfinite(output).all() or output.shape != after[call].shape:
            continue
        if (after[call] - output).abs().max() <= scale:
            continue
        for dim in range(1, output.dim()):
            if output.shape[dim] == len(permutation):
                moved = output.index_select(dim, permutation)
                if (after[call] - moved).abs().max() <= scale:
                    found = Site(call, dim)
    return found


def _produced(module: nn.Module, spec: WeightSpec, axis: str, outputs: Recorder) -> Site | None:
    found = None
    for call, output in outputs.items():
        producer = module.get_submodule(call.module)
        tensor = spec.tensors.get(f"{call.module}.weight".lstrip("."))
        if tensor is None or not isinstance(producer, nn.Linear | _ConvNd):
            continue
        dim = tensor.dims[1 if isinstance(producer, _ConvTransposeNd) else 0]
        if dim == ((axis,),):
            found = Site(call, output.dim() - 1 if isinstance(producer, nn.Linear) else 1)
    return found
