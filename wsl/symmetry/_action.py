"""Group elements, and whether they fit a specification."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from wsl.spec import SpecError, WeightSpec


@dataclass(frozen=True, eq=False)
class Action:
    """One group element for each of ``B`` networks. What is left out stays where it is.

    Args:
        permutations: for names of hidden axes, ``(B, *sizes of its family, n)`` int64: the old position of
            every new neuron, for each combination of new indices of the family.
        scales: for indices into ``spec.scalings``, ``(B, *sizes of the axis's family, n)`` factors of the
            neurons in their new order: above zero where the scaling is ``positive``, +1 or -1 where it is
            ``sign``. Where it is ``linear``: factors other than zero, or matrices
            ``(B, *sizes of the family, n, n)``, which act on the neurons in their new order.
    """

    permutations: Mapping[str, Tensor] = field(default_factory=dict)
    scales: Mapping[int, Tensor] = field(default_factory=dict)


def sizes_of(spec: WeightSpec, axis: str) -> tuple[int, ...]:
    """Sizes of an axis's family and of the axis itself."""
    return tuple(spec.axes[name].size for name in (*spec.axes[axis].family, axis))


def is_matrix(spec: WeightSpec, index: int, scale: Tensor) -> bool:
    """Whether the scale of a scaling has matrices, not factors."""
    return scale.dim() == 3 + len(spec.axes[spec.scalings[index].axis].family)


def check_action(spec: WeightSpec, action: Action, batch: int) -> None:
    """Raises :class:`SpecError` where ``action`` names other axes or scalings, or has other sizes."""
    for name, perm in action.permutations.items():
        axis = spec.axes.get(name)
        if axis is None or axis.kind != "hidden":
            hidden = ", ".join(a.name for a in spec.hidden_axes) or "none"
            raise SpecError(
                f"the action permutes {name}, which is no hidden axis of the spec; hidden axes: {hidden}."
            )
        _check_part(f"permutation of axis {name}", perm, (batch, *sizes_of(spec, name)))
    for index, scale in action.scales.items():
        if not 0 <= index < len(spec.scalings):
            raise SpecError(
                f"the action has scales for scaling {index}, but the spec has {len(spec.scalings)} scalings."
            )
        scaling = spec.scalings[index]
        expected = (batch, *sizes_of(spec, scaling.axis))
        if scaling.kind == "linear" and is_matrix(spec, index, scale):
            expected += expected[-1:]
        _check_part(f"scale of axis {scaling.axis}", scale, expected)


def _check_part(what: str, part: Tensor, expected: tuple[int, ...]) -> None:
    if part.shape != expected:
        dims = "networks, neurons" if len(expected) == 2 else "networks, then the axis after its family"
        raise SpecError(
            f"the {what} has shape {tuple(part.shape)}; expected {expected}: {dims}.\n"
            "  The action was made for another spec, or for another number of networks."
        )
