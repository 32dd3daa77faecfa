"""Any optimizer of this package as a :class:`torch.optim.Optimizer`."""

import copy
import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Self

import torch
from torch import Tensor, nn

from wsl.learnopt._learned import in_type
from wsl.learnopt._types import Tensors, map_state
from wsl.learnopt.optimizers import Optimizer
from wsl.spec import WeightSpec
from wsl.trace import trace

_TRAINING, _RULE = "training", "rule"
_COPIED = (
    "a TorchOptimizer moves the parameters of its module, and a copy or pickle of it would not know them. "
    "Make one for the copy of the module, and give it this one's state_dict()."
)


class TorchOptimizer(torch.optim.Optimizer):
    """Trains a module by a functional optimizer, learned or not, in any loop that takes torch's optimizers.

    All tensors of the module move in one vectorised update, and the optimizer sees all of them: those that
    are frozen, that no group holds or that have no gradient stay as they are, and count with a gradient of 0.
    A step in which nothing has a gradient changes nothing. A gradient that is exactly 0 is one:
    learned rules may move such weights, as those of an embedding's padding. Running statistics of norms are
    left alone. A parameter that the module uses under several names moves by the mean of what the rule says
    of each.

    Numbers are those of the widest type among the parameters, and at least of float32: so are the state of a
    module in bfloat16, and a learned rule on one in float64. A module may be moved to another type or device
    between two steps. Sparse gradients count as dense ones.

    The state is that of the whole module, under one key. A training that is resumed from :meth:`state_dict`
    goes on as the unbroken one, bit for bit. What ``torch.compile`` made of a module counts as the module.

    Momenta are the rule's own: schedules that move those of groups too (``OneCycleLR``, ``CyclicLR``) want
    ``cycle_momentum=False``, and raise ValueError without it.

    Args:
        optimizer: the rule; copied, so that training it further changes nothing here.
        module: what to train.
        example_inputs: of ``module``, for :func:`wsl.trace`.
        params: parameters of ``module``, or groups of them with settings of their own, as torch takes them;
            by default all.
        lr: multiplies every move, 1 being what the rule says; schedules of torch and groups may change it.
        weight_decay: each step also shrinks parameters by this share times ``lr``.

    Raises:
        SpecError: the rule's parameters depend on an architecture, and this is another one.
        ValueError: a parameter that is not the module's, or a negative setting.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        module: nn.Module,
        example_inputs: Any,
        params: Iterable[Any] | None = None,
        *,
        lr: float = 1.0,
        weight_decay: float = 0.0,
    ) -> None:
        module = getattr(module, "_orig_mod", module)  # of torch.compile
        spec = trace(module, example_inputs)
        self._rule = copy.deepcopy(optimizer.on(spec)).requires_grad_(False)
        self._digest = _digest(self._rule, spec)
        named = module.named_parameters(remove_duplicate=False)
        self._named = {name: value for name, value in named if name in spec.tensors}
        self._ready: tuple[torch.device, torch.dtype, Optimizer] | None = None
        self._names: dict[int, list[str]] = {}
        for name, value in self._named.items():
            self._names.setdefault(id(value), []).append(name)
        self._trained: set[int] = set()
        defaults = {"lr": lr, "weight_decay": weight_decay}
        every = {id(value): value for value in self._named.values()}.values()
        super().__init__(every if params is None else params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Train further parameters of the module, such as those of a layer that is frozen no more."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        negative = [name for name in ("lr", "weight_decay") if not group[name] >= 0]
        foreign = [tuple(value.shape) for value in group["params"] if id(value) not in self._names]
        if negative or foreign:
            self.param_groups.pop()
        if negative:
            raise ValueError(f"{negative[0]} is {group[negative[0]]}; expected at least 0.")
        if foreign:
            raise ValueError(
                f"parameters of shapes {foreign} are none of the module that this optimizer was made for: "
                f"it has {', '.join(self._named)}. Give a module that holds all that is to be trained."
            )
        self._trained |= set(map(id, group["params"]))

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update.

        Args:
            closure: computes gradients and returns the loss. Rules that read the loss need it: without one
                they are given NaN.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        grads = {name: self._gradient(value) for name, value in self._named.items()}
        if all(grad is None for grad in grads.values()):
            return loss
        params = self._params()
        first = next(iter(params.values()))
        slopes = {
            name: torch.zeros_like(params[name]) if grad is None else grad[None].to(first.dtype)
            for name, grad in grads.items()
        }
        states: dict[Any, dict[str, Any]] = self.state
        rule, here = self._prepared(params, states[_TRAINING])
        told = first.new_full((1,), torch.nan if loss is None else float(loss))
        new, state = rule.update(slopes, here["state"], params, here["step"], told)
        states[_TRAINING] = {"step": here["step"] + 1, "state": state}  # dictionaries given away stay
        for group in self.param_groups:
            moving = [value for value in group["params"] if self._gradient(value) is not None]
            if moving:
                _move(moving, [self._mean(new, value) for value in moving], group)
        return loss

    def _params(self) -> Tensors:
        """All parameters ``(1, *shape)`` in the type that is computed in."""
        kind = torch.float32
        for value in self._named.values():
            kind = torch.promote_types(kind, value.dtype)
        return {name: value.detach()[None].to(kind) for name, value in self._named.items()}

    def _prepared(self, params: Tensors, here: dict[str, Any]) -> tuple[Optimizer, dict[str, Any]]:
        """The rule, and number of steps and state, of the type and on the device of the parameters."""
        first = next(iter(params.values()))
        if self._ready is None or self._ready[:2] != (first.device, first.dtype):
            rule = in_type(self._rule, first.dtype).to(first.device)
            self._ready = first.device, first.dtype, rule
            if here:  # of a checkpoint, or the module has been moved
                state = map_state(lambda new, old: old.to(new), rule.init(params), here["state"])
                here = {"step": here["step"].to(first.device), "state": state}
        rule = self._ready[2]
        if not here:
            here = {"step": first.new_zeros(1, dtype=torch.int64), "state": rule.init(params)}
        return rule, here

    def _gradient(self, value: Tensor) -> Tensor | None:
        grad = value.grad if id(value) in self._trained and value.requires_grad else None
        return grad if grad is None or not grad.is_sparse else grad.to_dense()

    def _mean(self, new: Tensors, value: Tensor) -> Tensor:
        """Where a parameter is to go."""
        found = [new[name][0] for name in self._names[id(value)]]
        mean = found[0] if len(found) == 1 else torch.stack(found).mean(0)
        return mean.to(value.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        raise TypeError(_COPIED)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(_COPIED)

    def state_dict(self) -> dict[str, Any]:
        """State, settings of groups, and a digest of rule and architecture, which are not stored themselves.

        Later steps change nothing in it.
        """
        return {**super().state_dict(), _RULE: self._digest}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a :meth:`state_dict`.

        Raises:
            ValueError: it is of another optimizer or architecture, or of other groups.
        """
        if (found := state_dict.get(_RULE)) != self._digest:
            raise ValueError(
                "the state is one of another optimizer or module: rule and architecture have the digest "
                f"{found}, and those of this {type(self._rule).__name__} {self._digest}. Resume with the "
                "network and the optimizer, or the file of it, that the training began with."
            )
        super().load_state_dict({name: value for name, value in state_dict.items() if name != _RULE})
        self._ready = None


def _move(params: list[Tensor], new: list[Tensor], group: dict[str, Any]) -> None:
    rate, decay = float(group["lr"]), float(group["lr"]) * float(group["weight_decay"])
    shrunk = torch._foreach_mul(params, decay) if decay else None
    torch._foreach_lerp_(params, new, rate)
    if shrunk is not None:
        torch._foreach_sub_(params, shrunk)


def _digest(rule: Optimizer, spec: WeightSpec) -> str:
    """Of the class, of all parameters, constants and plain settings, and of the architecture."""
    found = hashlib.sha256(f"{type(rule).__name__}\n{spec}".encode())
    for name, module in rule.named_modules():
        for setting, value in sorted(vars(module).items()):
            if isinstance(value, bool | int | float | str) and setting != "training":
                found.update(f"\n{name}.{setting}={value!r}".encode())
    for name, value in rule.state_dict().items():
        found.update(name.encode())
        found.update(value.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]
