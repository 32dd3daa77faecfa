"""A float64 copy of a module with random state and random inputs, and how far two outputs of it lie apart."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from wsl._float64 import Float64Inside, widen
from wsl.trace._inputs import Example, read_examples

Inputs = Tensor | tuple[Any, ...] | list[Any]  # a tensor, a tuple of positional inputs, or a list of such
Keywords = Mapping[str, Any] | list[Mapping[str, Any]] | None
Output = Callable[[Any], Any]

_MASKING = 1e4  # entries of this size are masks (-1e9, the least float), not data


class RandomisedModule:
    """Runs a copy of a module as a function of its state, in float64 and evaluation mode.

    Every parameter and floating-point buffer is drawn anew, and so are floating-point inputs: with a freshly
    built module (zero heads, affine = 1, mean 0) or constant inputs a wrong specification can go unnoticed.
    Integers, booleans and what is huge or not finite (attention masks) are kept. Where the module asks for a
    narrower type it gets float64. The original stays untouched.

    Args:
        module: any module; on one device.
        example_inputs: a tensor, or a tuple of positional inputs; or a list of such examples.
        kwargs: keyword inputs: one mapping, or a list of as many as there are examples.
        seed: of the state, of the inputs, and of what the module itself draws at every call.
        output: selects what of the module's output counts; all of it if not given.

    Raises:
        TypeError: inputs of other types.
        ValueError: a module on the meta device; when called, one that does not run.
    """

    def __init__(
        self,
        module: nn.Module,
        example_inputs: Inputs,
        kwargs: Keywords = None,
        seed: int = 0,
        output: Output | None = None,
    ) -> None:
        examples = read_examples(example_inputs, kwargs)
        if any(value.is_meta for _, value in _named_state(module)):
            raise ValueError(
                f"{type(module).__name__} is on the meta device, which holds no numbers to compute with.\n"
                "  Build it on another device; a smaller network of the same kind will do."
            )
        self.generator = torch.Generator().manual_seed(seed)
        self.seed = seed
        self._module = copy.deepcopy(module).eval()
        for part in self._module.modules():
            for name, value in list(vars(part).items()):
                if isinstance(value, Tensor):
                    setattr(part, name, widen(value))
        self.canonical = _canonical_names(module)
        self.parameters = frozenset(name for name, _ in module.named_parameters(remove_duplicate=False))
        self.state = {
            name: self._draw(name, value.detach())
            for name, value in _named_state(module)
            if self.canonical[name] == name
        }
        self._scales = {
            name: _own_scale(value.detach()) for name, value in _named_state(module) if name in self.state
        }
        self._cuda = {v.get_device() for v in self.state.values() if v.is_cuda}
        self._examples = [example.map(self._draw_input) for example in examples]
        self._output = output
        self._written: set[str] | None = None

    def __call__(self, changed: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run with some state tensors replaced; returns the tensors of the output by where they stand."""
        given = {name: changed.get(name, value) for name, value in self.state.items()}
        found: dict[str, Tensor] = {}
        written: set[str] = set()
        for index, example in enumerate(self._examples):
            state = {name: v.clone() if self._may_be_written(name) else v for name, v in given.items()}
            where = "output" if len(self._examples) == 1 else f"output of example {index + 1}"
            found |= leaves(self._run(example, state), where)
            if self._written is None:
                written |= {name for name, value in state.items() if not _identical(value, given[name])}
        if self._written is None:
            self._written = written
        return found

    def _run(self, example: Example, state: Mapping[str, Tensor]) -> object:
        try:
            with torch.no_grad(), torch.random.fork_rng(self._cuda), Float64Inside():
                self._seed_all()
                output = torch.func.functional_call(
                    self._module, dict(state), example.inputs, example.keywords
                )
                return output if self._output is None else self._output(output)
        except Exception as err:
            raise ValueError(
                f"{type(self._module).__name__} fails to run in float64 on random weights and inputs: "
                f"{type(err).__name__}: {err}\n  It has to run on the example inputs; where an operator "
                "takes no float64, choose another implementation of it."
            ) from err

    def _may_be_written(self, name: str) -> bool:
        """What the first run wrote to is copied before later ones; all else is not, as copies take time."""
        return self._written is None or name in self._written

    def _seed_all(self) -> None:
        """Seed what the module may draw from; ``torch.manual_seed`` takes longer than small modules do."""
        torch.default_generator.manual_seed(self.seed)
        for device in self._cuda:
            torch.cuda.default_generators[device].manual_seed(self.seed)

    def settle(self) -> None:
        """Draw smaller weights where rounding errors grow so much that outputs could not be compared.

        Sines of high frequency do that (``w0`` of a SIREN): their weights are small by design. To be called
        once it is known that the module runs.
        """
        generator = torch.Generator().manual_seed(self.seed)
        shaken = {}
        for name, value in self.state.items():
            if value.is_floating_point() or value.is_complex():
                noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
                shaken[name] = value * (1 + 1e-15 * noise).to(value.device)
        expected, found = self({}), self(shaken)
        common = expected.keys() & found.keys()
        if any(relative_error(found[path], expected[path]) > 1e-11 for path in common):
            for name, scale in self._scales.items():
                self.state[name] *= scale

    def _draw(self, name: str, value: Tensor) -> Tensor:
        """Like ``value``: positive where it is a variance or all non-negative, else normal by fan-in."""
        if not (value.is_floating_point() or value.is_complex()):
            return value
        real = value.is_floating_point()
        dtype = torch.float64 if real else torch.complex128
        if real and name not in self.parameters and (name.endswith("running_var") or _is_positive(value)):
            drawn = 0.5 + torch.rand(value.shape, generator=self.generator, dtype=dtype)
        else:
            drawn = torch.randn(value.shape, generator=self.generator, dtype=dtype)
            if value.dim() > 1:
                drawn /= math.sqrt(max(1, value[0].numel()))
        return torch.where(value.isfinite(), drawn.to(value.device), value.to(dtype))

    def _draw_input(self, value: Tensor) -> Tensor:
        if not (value.is_floating_point() or value.is_complex()):
            return value
        dtype = torch.float64 if value.is_floating_point() else torch.complex128
        if value.layout is not torch.strided:
            return value.to(dtype)  # sparse: which entries are zero is part of what it says
        drawn = torch.randn(value.shape, generator=self.generator, dtype=dtype)
        kept = value.isfinite().logical_not() | (value.abs() >= _MASKING)
        return torch.where(kept, value.to(dtype), drawn.to(value.device))


def relative_error(value: Tensor, expected: Tensor) -> float:
    """Largest difference over the largest entry of ``expected``; infinite if shapes differ, NaN stays."""
    if value.shape != expected.shape:
        return math.inf
    if not expected.numel():
        return 0.0
    difference = torch.where(value == expected, 0, (value - expected).abs()).max().item()
    finite = torch.where(expected.isfinite(), expected.abs(), 0).max().item()
    return difference / finite if finite else difference


def leaves(
    tree: object, path: str = "output", above: frozenset[int] = frozenset()
) -> Iterator[tuple[str, Tensor]]:
    """Tensors and numbers in nested containers, and in attributes of objects, by path: ``output['a'][0]``."""
    if id(tree) in above:
        return  # an object that holds itself
    above |= {id(tree)}
    if isinstance(tree, (Tensor, int, float, complex)):
        value = torch.as_tensor(tree).detach()
        yield path, value.to(torch.complex128 if value.is_complex() else torch.float64)
    elif isinstance(tree, Mapping):
        for key, part in tree.items():
            yield from leaves(part, f"{path}[{key!r}]", above)
    elif isinstance(tree, (tuple, list)):
        for index, part in enumerate(tree):
            yield from leaves(part, f"{path}[{index}]", above)
    elif hasattr(tree, "__dict__") and not isinstance(tree, (type, nn.Module)):
        for name, part in vars(tree).items():
            yield from leaves(part, f"{path}.{name}", above)


def _named_state(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _canonical_names(module: nn.Module) -> dict[str, str]:
    """For every name of a state tensor the first name of the same tensor: tied ones are one tensor."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(value), name) for name, value in _named_state(module)}


def _own_scale(value: Tensor) -> float:
    """Spread of a tensor of weights in units of ``1 / sqrt(fan in)``, at most 1; 1 where it has none."""
    if not value.is_floating_point() or value.dim() < 2 or not value.numel():
        return 1.0
    scale = value.double().std(correction=0).item() * math.sqrt(value[0].numel())
    return min(1.0, max(scale, 1 / 64)) if math.isfinite(scale) and scale else 1.0


def _is_positive(value: Tensor) -> bool:
    return value.numel() > 0 and bool((value >= 0).all()) and bool(value.any())


def _identical(value: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same entries; NaN equals itself."""
    return bool(((value == other) | (value != value)).all())
