"""Weight matching: coordinate ascent on the inner product of two networks' weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from wsl import symmetry
from wsl.align._assignment import assign, assign_with_signs
from wsl.align._gains import Blocks, counted, flips, gains, inner_product, member_gains, split
from wsl.spec import SpecError, WeightSpec
from wsl.symmetry import Action

_Key = TypeVar("_Key", str, int)

_ROUNDING = 1e-12  # gains below this share of the largest possible inner product are noise of float64


def weight_matching(
    spec: WeightSpec, weights_a: Mapping[str, Tensor], weights_b: Mapping[str, Tensor]
) -> Action:
    """Move each network of ``b`` towards the one of ``a``: permutations, and flips where the spec has them.

    Maximises :func:`wsl.align.similarity` one hidden axis at a time, by linear assignment: exact for the
    axis, given all others. An axis that families are over (attention heads) is matched together with their
    members. There are two starts, and each network keeps the better end: where it is, and matched axis by
    axis by those weights alone whose other neurons are matched already. Moved copies of generic networks are
    brought back exactly by the second where every axis can be reached so from inputs and outputs.

    Args:
        weights_a: ``(B, *shape)`` for every tensor of ``spec``; the reference.
        weights_b: likewise, on the same device; networks are matched one to one.

    Returns:
        The element ``g`` for ``symmetry.apply(spec, g, weights_b)``, with a permutation of every hidden axis
        and a sign along every scaling that may flip; ``similarity`` is never lower than without it.

    Raises:
        SpecError: weights that do not fit ``spec``, or different numbers of networks.
        ValueError: weights that are not finite.

    Source: Ainsworth et al. 2023, algorithm 1 (arXiv:2209.04836). Deviates: signs of neurons are matched too
    (sines, tanh, linear axes), members of families with them; axes come in the spec's order, not a random
    one; running statistics move but do not count; where an axis occurs twice in a block, as in recurrent
    weights, the linearised step is taken only where it gains. A local optimum.
    Cost: O(n^3) on the processor for each axis, network and sweep.
    """
    batch = spec.check_weights(weights_a)
    if spec.check_weights(weights_b) != batch:
        raise SpecError(
            f"weights_a holds {batch} networks and weights_b {spec.check_weights(weights_b)}; networks are "
            "matched one to one, so give equally many."
        )
    a, b = split(spec, weights_a), split(spec, weights_b)
    _check_finite("weights_a", a)
    _check_finite("weights_b", b)
    device = next(iter(a.values())).device
    whole = symmetry.identity(spec, batch, device=device, dtype=torch.float64)
    flipped = {index for axis in spec.hidden_axes for index in flips(spec, axis.name)}
    start = _State(spec, a, b, Action(whole.permutations, {i: whole.scales[i] for i in sorted(flipped)}))
    stay, reached = _ascend(start), _ascend(_greedy(start))
    return stay.replace(reached.value > stay.value, reached).action


@dataclass(frozen=True, eq=False)
class _State:
    """Blocks of ``a``, those of ``b`` as moved so far, and the element that moved them."""

    spec: WeightSpec
    a: Blocks
    b: Blocks
    action: Action

    @property
    def value(self) -> Tensor:
        """``(B,)``: the objective."""
        return inner_product(self.spec, self.a, self.b)

    def move(self, step: Action) -> "_State":
        """Move ``b`` on."""
        channels = {key: block.unsqueeze(-1) for key, block in self.b.items()}
        moved = symmetry.apply_to_features(self.spec, step, channels)
        blocks = {key: block.squeeze(-1) for key, block in moved.items()}
        return _State(self.spec, self.a, blocks, symmetry.compose(self.spec, step, self.action))

    def at(self, rows: Tensor) -> "_State":
        """Some of the networks."""

        def read(parts: Mapping[_Key, Tensor]) -> dict[_Key, Tensor]:
            return {key: part[rows] for key, part in parts.items()}

        action = Action(read(self.action.permutations), read(self.action.scales))
        return _State(self.spec, read(self.a), read(self.b), action)

    def put(self, rows: Tensor, other: "_State") -> "_State":
        """This state with other states ``at(rows)``."""

        def write(mine: Mapping[_Key, Tensor], theirs: Mapping[_Key, Tensor]) -> dict[_Key, Tensor]:
            return {key: part.index_copy(0, rows, theirs[key]) for key, part in mine.items()}

        mine, theirs = self.action, other.action
        action = Action(write(mine.permutations, theirs.permutations), write(mine.scales, theirs.scales))
        return _State(self.spec, self.a, write(self.b, other.b), action)

    def replace(self, chosen: Tensor, other: "_State") -> "_State":
        """The ``other`` state for the networks that are ``chosen`` ``(B,)``, this one for the rest."""
        rows = chosen.nonzero().flatten()
        return other if len(rows) == len(chosen) else self.put(rows, other.at(rows))


def _ascend(state: _State) -> _State:
    """Match one axis after the other until no step gains anything, for each network."""
    rows = torch.arange(len(state.value), device=state.value.device)
    while len(rows):
        moved, gained = _sweep(state.at(rows))
        state = state.put(rows, moved)
        rows = rows[gained]
    return state


def _sweep(state: _State) -> tuple[_State, Tensor]:
    """Match each axis once, where that gains; and for which networks ``(B,)`` any of them did."""
    spec, keys = state.spec, counted(state.spec)
    least = _ROUNDING * _largest(state)
    value = state.value
    gained = torch.zeros_like(value, dtype=torch.bool)
    for axis in spec.hidden_axes:
        steps = [(flip, False) for flip in flips(spec, axis.name) or (None,)]
        if _members(spec, axis.name):
            steps.insert(0, (None, True))
        for flip, jointly in steps:
            name = axis.name
            step = _match_jointly(state, name, keys) if jointly else _match(state, name, keys, flip)
            tried = state.move(step)
            better = tried.value > value + least
            if better.any():
                state, gained = state.replace(better, tried), gained | better
                value = state.value
    return state, gained


def _greedy(state: _State) -> _State:
    """Match each axis once, by the blocks whose other hidden axes are matched already."""
    spec = state.spec
    hidden = {axis.name for axis in spec.hidden_axes}
    waiting = [axis.name for axis in spec.hidden_axes]
    while waiting:
        known = {name: _known(spec, name, hidden.difference(waiting)) for name in waiting}
        axis = next((name for name in waiting if known[name]), waiting[0])
        if _members(spec, axis):
            state = state.move(_match_jointly(state, axis, known[axis]))
        else:
            state = state.move(_match(state, axis, known[axis], next(iter(flips(spec, axis)), None)))
        waiting = [name for name in waiting if name not in (axis, *_members(spec, axis))]
    return state


def _known(spec: WeightSpec, axis: str, matched: set[str]) -> tuple[str, ...]:
    """Blocks that carry the axis once and, besides its members, only hidden axes that are matched."""
    found = []
    for key in counted(spec):
        axes = spec.block(key).block.axes
        rest = {name for name in axes if name in spec.axes and spec.axes[name].kind == "hidden"}
        if axes.count(axis) == 1 and rest - {axis, *_members(spec, axis)} <= matched:
            found.append(key)
    return tuple(found)


def _members(spec: WeightSpec, axis: str) -> tuple[str, ...]:
    """The families that are over this axis and its own family, and nothing else."""
    own = (*spec.axes[axis].family, axis)
    return tuple(other.name for other in spec.hidden_axes if other.family == own)


def _match(state: _State, axis: str, keys: tuple[str, ...], flip: int | None) -> Action:
    """The best element along one axis, all others staying as they are."""
    plain, turned = gains(state.spec, axis, keys, state.a, state.b, flip)
    matched, _, signs = assign_with_signs(plain, turned)
    return Action({axis: matched}, {} if flip is None else {flip: signs})


def _match_jointly(state: _State, axis: str, keys: tuple[str, ...]) -> Action:
    """The best element along an axis and its members: for each pair, the best match of their members.

    Blocks that carry two members at once vote for neither.
    """
    spec, members = state.spec, _members(state.spec, axis)
    carried = {key: [name for name in members if name in spec.block(key).block.axes] for key in keys}
    alone = [key for key in keys if not carried[key]]
    total = sum(gains(spec, axis, alone, state.a, state.b, None))
    inner = {}
    for member in members:
        flip = next(iter(flips(spec, member)), None)
        own = [key for key in keys if carried[key] == [member]]
        inner[member] = assign_with_signs(*member_gains(spec, member, own, state.a, state.b, flip))
        total = total + inner[member][1]
    assert isinstance(total, Tensor)
    matched, _ = assign(total)
    permutations, scales = {axis: matched}, {}
    for member, (columns, _, signs) in inner.items():
        chosen = matched[..., None, None].expand(*matched.shape, 1, columns.shape[-1])
        permutations[member] = columns.gather(-2, chosen).squeeze(-2)
        for flip in flips(spec, member)[:1]:
            scales[flip] = signs.gather(-2, chosen).squeeze(-2)
    return Action(permutations, scales)


def _check_finite(name: str, blocks: Blocks) -> None:
    broken = torch.stack([~block.reshape(len(block), -1).isfinite().all(1) for block in blocks.values()]).any(
        0
    )
    if broken.any():
        raise ValueError(
            f"{name} holds values that are not finite, in networks {broken.nonzero().flatten().tolist()} of "
            f"{len(broken)}; nothing matches these.\n  Leave networks out whose training diverged."
        )


def _largest(state: _State) -> Tensor:
    """``(B,)``: no element brings the objective above the product of the norms."""
    norms = [inner_product(state.spec, blocks, blocks).sqrt() for blocks in (state.a, state.b)]
    return norms[0] * norms[1]
