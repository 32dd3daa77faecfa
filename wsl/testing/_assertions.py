"""Assertions about modules, encoders and heads."""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from wsl._randomised import Inputs, Keywords, Output, RandomisedModule, leaves, relative_error
from wsl._verify import TOLERANCE
from wsl.spec import WeightSpec
from wsl.symmetry import Action, apply, apply_to_features, apply_to_nodes, sample
from wsl.testing._weights import random_weights


def assert_preserves_function(
    module: nn.Module,
    spec: WeightSpec,
    example_inputs: Inputs,
    kwargs: Keywords = None,
    *,
    trials: int = 3,
    seed: int = 0,
    output: Output | None = None,
) -> None:
    """Random group elements of ``spec`` leave the function of ``module`` unchanged, to 1e-10 relative.

    State and inputs are randomised in a float64 copy first. Examples and ``output`` are those of
    :func:`wsl.trace`. :func:`wsl.verify` looks closer: it moves every
    part of the group on its own, tells which one fails, and checks that the test can fail.

    Raises:
        AssertionError: an output changed; the message names it and the error.
        SpecError: ``spec`` belongs to another module.
    """
    subject = RandomisedModule(module, example_inputs, kwargs, seed, output)
    known = [name for name in spec.tensors if name in subject.canonical]
    spec.check_weights({name: subject.state[subject.canonical[name]] for name in known}, batched=False)
    subject.settle()
    state = {name: subject.state[subject.canonical[name]] for name in known}
    weights = {name: tensor.unsqueeze(0) for name, tensor in state.items()}
    generator = torch.Generator().manual_seed(seed)
    expected = subject({})
    assert expected, "the module's output holds no tensors, so there is nothing to compare"
    for _ in range(trials):
        action = sample(spec, 1, scale=True, linear=True, generator=generator, dtype=torch.float64)
        moved = apply(spec, action, weights)
        found = subject({subject.canonical[name]: tensor[0] for name, tensor in moved.items()})
        assert found.keys() == expected.keys(), (
            f"the structure of the output changes under the group of\n{spec}"
        )
        for path, value in expected.items():
            error = relative_error(found[path], value)
            assert error <= TOLERANCE, f"{path} changes by {error:.1e} relative under the group of\n{spec}"


def assert_equivariant(
    function: Callable[[dict[str, Tensor]], object],
    spec: WeightSpec,
    *,
    atol: float = 1e-9,
    trials: int = 3,
    batch: int = 2,
    scale: bool = False,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> None:
    """``function(g.w) == g.function(w)`` for random weights and random group elements.

    Args:
        function: takes weights ``(B, *shape)``; returns weights (an update), or weight features: an object
            with ``tensors`` (by block key, ``(B, *view, C)``) and ``nodes`` (by node set, ``(B, n, C)``).
        atol: largest difference, beside as much relative to the largest entry of each tensor.
        scale: also draw scalings and sign flips, diagonal matrices for linear scalings.

    Raises:
        AssertionError: the message names the tensor and the difference.
    """
    for weights, action in _trials(spec, trials, batch, scale, seed, dtype):
        output, moved = function(weights), function(apply(spec, action, weights))
        _assert_close(_parts(moved), _parts(_act_on(spec, action, output)), atol, "is not equivariant")


def assert_invariant(
    function: Callable[[dict[str, Tensor]], object],
    spec: WeightSpec,
    *,
    atol: float = 1e-9,
    trials: int = 3,
    batch: int = 2,
    scale: bool = False,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> None:
    """``function(g.w) == function(w)`` for random weights and group elements; tensors in any nesting.

    Arguments and errors are those of :func:`assert_equivariant`.
    """
    for weights, action in _trials(spec, trials, batch, scale, seed, dtype):
        output, moved = function(weights), function(apply(spec, action, weights))
        _assert_close(_parts(moved), _parts(output), atol, "is not invariant")


def _trials(
    spec: WeightSpec, trials: int, batch: int, scale: bool, seed: int, dtype: torch.dtype
) -> Iterator[tuple[dict[str, Tensor], Action]]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(trials):
        weights = random_weights(spec, batch, generator, dtype)
        yield weights, sample(spec, batch, scale=scale, generator=generator, dtype=dtype)


def _act_on(spec: WeightSpec, action: Action, output: object) -> object:
    if isinstance(output, Mapping):
        return apply(spec, action, output)
    features, nodes = getattr(output, "tensors", None), getattr(output, "nodes", None)
    if features is None and nodes is None:
        raise TypeError(
            "expected weights (a mapping) or an object with 'tensors' and 'nodes', "
            f"got {type(output).__name__}."
        )
    return {
        "tensors": apply_to_features(spec, action, features) if features else {},
        "nodes": apply_to_nodes(spec, action, nodes) if nodes else {},
    }


def _parts(output: object) -> dict[str, Tensor]:
    if hasattr(output, "tensors") and hasattr(output, "nodes"):
        output = {"tensors": dict(output.tensors), "nodes": dict(output.nodes)}
    return dict(leaves(output))


def _assert_close(found: dict[str, Tensor], expected: dict[str, Tensor], atol: float, complaint: str) -> None:
    assert expected, "the function returned no tensors, so there is nothing to compare"
    assert found.keys() == expected.keys(), f"outputs differ: {', '.join(found)} and {', '.join(expected)}"
    for path, value in expected.items():
        assert found[path].shape == value.shape, f"{path} has shapes {found[path].shape} and {value.shape}"
        assert value.isfinite().all(), f"{path} is not finite"
        if value.numel():
            difference = (found[path] - value).abs().max().item()
            limit = atol * (1 + value.abs().max().item())
            assert difference <= limit, f"{path} {complaint}: differs by {difference:.1e} (limit {limit:.1e})"
