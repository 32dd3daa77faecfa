"""Families and stacks are found where permutations may differ from index to index, and nowhere else."""

import logging
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wsl import WeightSpec, trace, verify

HEADS, INNER, WIDTH = 4, 3, 5


@pytest.fixture(autouse=True)
def _no_failing_rules(caplog):
    yield
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


class Heads(nn.Module):
    """A function of ``(batch, token, head, inner)`` between two linear layers, and a weight to use in it."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.function = function
        self.embed = nn.Linear(2, WIDTH)
        self.first = nn.Linear(WIDTH, HEADS * INNER)
        self.last = nn.Linear(HEADS * INNER, 2)
        self.weight = nn.Parameter(torch.randn(shape)) if shape else None

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(torch.tanh(self.embed(x))).view(*x.shape[:2], HEADS, INNER)
        return self.last(self.function(h, self.weight).reshape(*x.shape[:2], HEADS * INNER))


def _traced(module: nn.Module, *inputs: Tensor) -> WeightSpec:
    """The specification, which is checked."""
    inputs = inputs or (torch.randn(2, 3, 2, dtype=torch.float64),)
    spec = trace(module, inputs)
    assert verify(module, spec, inputs).worst_error <= 1e-10
    return spec


def _line(spec: WeightSpec, name: str) -> str:
    """How the spec writes a tensor."""
    (line,) = [line for line in str(spec).splitlines() if line.split()[0] == name]
    return line.partition(" ")[2].strip()


def _token_by_token(h: Tensor, _: Tensor) -> Tensor:
    out = torch.zeros_like(h)
    for t in range(h.shape[1]):
        out[:, t] = h[:, t].tanh()
    return out


def _overwritten(h: Tensor, _: Tensor) -> Tensor:
    h = h.clone()
    h[:, :, 1] = h[:, :, 0]
    return h


def _accumulated(h: Tensor, _: Tensor) -> Tensor:
    flat = h.clone().flatten(2)
    flat.add_(h.tanh().flatten(2))
    return flat


KEPT = {
    "identity": (lambda h, w: h.relu(), ()),
    "softmax within heads": (lambda h, w: h.softmax(-1), ()),
    "softmax over all": (lambda h, w: h.flatten(2).softmax(-1).view_as(h), ()),
    "norm within heads": (lambda h, w: F.layer_norm(h, (INNER,)), ()),
    "norm over all": (lambda h, w: F.layer_norm(h.flatten(2), (HEADS * INNER,)).view_as(h), ()),
    "group norm": (lambda h, w: F.group_norm(h.reshape(-1, HEADS * INNER), HEADS).view_as(h), ()),
    "mean over both": (lambda h, w: h * h.mean((2, 3), keepdim=True), ()),
    "gate of each head": (lambda h, w: h * h.mean(3, keepdim=True).sigmoid(), ()),
    "a weight of its own": (lambda h, w: h * w, (HEADS, INNER)),
    "a factor of each head": (lambda h, w: h * w, (HEADS, 1)),
    "a matrix of each head": (lambda h, w: torch.einsum("bthd,hde->bthe", h, w), (HEADS, INNER, INNER)),
    "in-place product": (lambda h, w: h.clone().mul_(w), (HEADS, INNER)),
    "in-place sum through a view": (_accumulated, ()),
    "written token by token": (_token_by_token, ()),
}
TURNED = {
    "a weight that heads share": (lambda h, w: h * w, (INNER,)),
    "sum over heads": (lambda h, w: h + h.sum(2, keepdim=True), ()),
    "maximum over heads": (lambda h, w: h - h.amax(2, keepdim=True), ()),
    "softmax over heads": (lambda h, w: h.softmax(2), ()),
    "norm over heads": (lambda h, w: F.normalize(h, dim=2), ()),
}
LOST = {
    "weights of both": (lambda h, w: h * w[:HEADS, None] * w[HEADS:], (HEADS + INNER,)),
    "heads mixed by a weight": (lambda h, w: torch.einsum("bthd,hg->btgd", h, w), (HEADS, HEADS)),
    "attention among heads": (lambda h, w: (h @ h.transpose(2, 3)).softmax(-1) @ h, ()),
    "covariance": (lambda h, w: h @ torch.einsum("bthd,bthe->bde", h, h).unsqueeze(1), ()),
    "one head written over another": (_overwritten, ()),
    "average over neighbours": (lambda h, w: F.avg_pool1d(h.flatten(0, 1), 3, 1, 1).view_as(h), ()),
    "heads in another order": (lambda h, w: torch.stack(h.unbind(2)[::-1], 2) * h, ()),
    "transposed": (lambda h, w: h.transpose(2, 3).reshape(h.shape), ()),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_inner_dimension_of_each_head_is_its_own(name):
    spec = _traced(Heads(*KEPT[name]).double())
    assert _line(spec, "first.weight").startswith("(h2 h3[h2]) h1")
    assert _line(spec, "last.weight").startswith("y (h2 h3[h2])") or "matrix" in name


@pytest.mark.parametrize("name", TURNED)
def test_heads_that_are_mixed_at_each_inner_index_are_a_family_over_it(name):
    spec = _traced(Heads(*TURNED[name]).double())
    assert _line(spec, "first.weight").startswith("(h2[h3] h3) h1")


@pytest.mark.parametrize("name", LOST)
def test_heads_that_are_mixed_share_their_inner_dimension(name):
    spec = _traced(Heads(*LOST[name]).double())
    assert "h1" in spec.axes
    assert not any(axis.family for axis in spec.hidden_axes)


class Attention(nn.Module):
    """Self-attention, with ``parts`` that take its packed projections to ``(batch, head, token, inner)``."""

    def __init__(self, parts: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]], bias: bool = True) -> None:
        super().__init__()
        self.parts = parts
        self.embed = nn.Linear(2, WIDTH)
        self.packed = nn.Linear(WIDTH, 3 * HEADS * INNER, bias)
        self.last = nn.Linear(HEADS * INNER, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(self.packed(self.embed(x)))
        return self.last(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def _heads(*parts: Tensor) -> tuple[Tensor, ...]:
    return tuple(part.unflatten(-1, (HEADS, INNER)).transpose(1, 2) for part in parts)


def _three(h: Tensor) -> Tensor:
    return h.reshape(*h.shape[:2], 3, HEADS, INNER)


PACKED = {
    "chunk": lambda h: _heads(*h.chunk(3, -1)),
    "slices": lambda h: _heads(h[..., :12], h[..., 12:24], h[..., 24:]),
    "unbind": lambda h: _three(h).permute(2, 0, 3, 1, 4).unbind(0),
    "select": lambda h: (lambda p: (p[0], p[1], p[2]))(_three(h).permute(2, 0, 3, 1, 4)),
    "select inside": lambda h: tuple(_three(h)[:, :, i].transpose(1, 2) for i in range(3)),
    "split": lambda h: tuple(p.squeeze(2).transpose(1, 2) for p in _three(h).split(1, 2)),
    "pair": lambda h: (lambda p: (p[:2][0], p[:2][1], p[2]))(_three(h).permute(2, 0, 3, 1, 4)),
    "copied": lambda h: (lambda p: (p[0], p[1], p[2]))(_three(h).permute(2, 0, 3, 1, 4).contiguous().clone()),
    "flattened": lambda h: _heads(*h.unflatten(-1, (3, -1)).unbind(-2)),
    "scaled in place": lambda h: (lambda q, k, v: (q.mul_(2), k, v))(
        *_three(h).permute(2, 0, 3, 1, 4).unbind(0)
    ),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_projections_have_inner_dimensions_of_their_own(name):
    spec = _traced(Attention(PACKED[name]).double())
    assert _line(spec, "packed.weight") == "(h2 h3[h2] + h2 h3[h2] + h2 h4[h2]) h1"
    assert _line(spec, "last.weight") == "y (h2 h4[h2])"


def test_projections_that_are_read_as_one_tensor_share_their_axes():
    spec = _traced(Attention(lambda h: torch.tanh(_three(h)).permute(2, 0, 3, 1, 4).unbind(0)).double())
    line = _line(spec, "packed.weight")
    assert line == "(h2 h3[h2] + h2 h3[h2] + h2 h3[h2]) h1"


def test_projections_within_heads_have_axes_of_their_own():
    def parts(h: Tensor) -> tuple[Tensor, ...]:
        return h.view(*h.shape[:2], HEADS, 3, INNER).transpose(1, 2).unbind(3)

    spec = _traced(Attention(parts).double())
    assert _line(spec, "packed.weight") == "(h2 (h3[h2] + h3[h2] + h4[h2])) h1"
    assert not spec.notes


def test_projections_within_heads_that_are_also_read_at_once_share_their_axes():
    def parts(h: Tensor) -> tuple[Tensor, ...]:
        heads = h.view(*h.shape[:2], HEADS, 3, INNER).transpose(1, 2)
        return (heads * heads.logsumexp(3, keepdim=True)).unbind(3)

    spec = _traced(Attention(parts).double())
    assert _line(spec, "packed.weight") == "(h2 (h3[h2] + h3[h2] + h3[h2])) h1"


class Cross(nn.Module):
    """Attention to a memory, whose projections torch packs in one weight and reads in two parts."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.memory = nn.Linear(2, 6), nn.Linear(2, 6)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.last = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        m = self.memory(x.flip(1))
        return self.last(self.attention(self.embed(x), m, m, need_weights=False)[0])


def test_multihead_attention():
    spec = _traced(Cross().double())
    assert _line(spec, "attention.in_proj_weight") == "(h2 h3[h2] + h2 h3[h2] + h2 h4[h2]) h1"


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], states: bool = False, **options: object) -> None:
        super().__init__()
        self.cells = kind(2, 4, 2, batch_first=True, **options)
        self.last = nn.Linear(4, 2)
        self.states = states

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        out, state = self.cells(x)
        return (self.last(out), state) if self.states else self.last(out)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_layers_of_a_recurrent_network_have_axes_of_their_own(kind):
    spec = _traced(Recurrent(kind).double())
    assert [axis.size for axis in spec.hidden_axes] == [4, 4]


def test_layers_whose_states_are_returned_are_outputs():
    spec = _traced(Recurrent(nn.GRU, states=True).double())
    assert not spec.hidden_axes
    assert sorted(axis.kind for axis in spec.axes.values()) == ["input", "output", "output", "output"]


class LastStates(nn.Module):
    """Reads the last states of all layers, one after another."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.GRU(2, 4, 2, bidirectional=True, batch_first=True)
        self.last = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        state = self.cells(x)[1]
        return self.last(state.transpose(0, 1).flatten(1))


def test_flattened_slices_are_a_concatenation():
    spec = _traced(LastStates().double())
    assert _line(spec, "last.weight") == "y (h1 + h2 + h3 + h4)"


class Branches(nn.Module):
    """Two layers side by side, and a function of their outputs."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.one, self.two = nn.Linear(2, 4), nn.Linear(2, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.one(x).tanh(), self.two(x).tanh()))


def _written(a: Tensor, b: Tensor) -> Tensor:
    stack = torch.stack([a, b])
    stack[0].add_(stack[1])
    return stack[0]


APART = {
    "selected": lambda a, b: torch.stack([a, b.mean(-1, keepdim=True).expand_as(b)])[0],
    "moved": lambda a, b: torch.stack([a, b], -1).transpose(-1, 0).unsqueeze(0)[0, 0].mT.mul(b.norm()),
    "sliced": lambda a, b: (
        torch.stack([a, b, b])[:2][0] * torch.stack([a, b], 1)[:, 1:].sum((1, 2), True)[:, 0]
    ),
}
TOGETHER = {
    "summed": lambda a, b: torch.stack([a, b]).sum(0),
    "read as one": lambda a, b: torch.stack([a, b]).relu()[0],
    "written": _written,
    "scaled in place": lambda a, b: torch.stack([a, b]).mul_(2)[0] * b,
}


@pytest.mark.parametrize("name", APART)
def test_slices_of_a_stack_lie_on_axes_of_their_own(name):
    spec = _traced(Branches(APART[name]).double(), torch.randn(3, 2, dtype=torch.float64))
    assert _line(spec, "one.weight") != _line(spec, "two.weight")


@pytest.mark.parametrize("name", TOGETHER)
def test_slices_that_are_read_together_lie_on_the_same_axes(name):
    spec = _traced(Branches(TOGETHER[name]).double(), torch.randn(3, 2, dtype=torch.float64))
    assert _line(spec, "one.weight") == _line(spec, "two.weight") == "h1 x"


class Queries(nn.Module):
    """Grouped queries, with keys for each query head and values for each group."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(2, WIDTH)
        self.q, self.k = nn.Linear(WIDTH, 2 * 3 * 4), nn.Linear(WIDTH, 2 * 3 * 4)
        self.v = nn.Linear(WIDTH, 2 * 5)
        self.last = nn.Linear(2 * 3 * 5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        q, k = (layer(x).unflatten(-1, (2, 3, 4)) for layer in (self.q, self.k))
        a = torch.einsum("btgrd,bsgrd->bgrts", q, k).softmax(-1)
        y = torch.einsum("bgrts,bsgd->btgrd", a, self.v(x).unflatten(-1, (2, 5)))
        return self.last(y.flatten(2))


def test_families_over_families():
    spec = _traced(Queries().double())
    assert _line(spec, "q.weight") == "(h2 h3[h2] h4[h2,h3]) h1"
    assert _line(spec, "v.weight") == "(h2 h5[h2]) h1"
    assert _line(spec, "last.weight") == "y (h2 h3[h2] h5[h2])"


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.route = nn.Linear(2, 3)
        self.up = nn.Parameter(torch.randn(3, 2, 4))
        self.down = nn.Parameter(torch.randn(3, 4, 2))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(torch.einsum("bi,eih->beh", x, self.up))
        y = torch.einsum("beh,eho->beo", h, self.down)
        return (self.route(x).softmax(-1).unsqueeze(-1) * y).sum(1)


def test_hidden_neurons_of_each_expert():
    spec = _traced(Experts().double(), torch.randn(5, 2, dtype=torch.float64))
    assert _line(spec, "up") == "h1 x h2[h1]"
    assert _line(spec, "down") == "h1 h2[h1] y"


class Additive(nn.Module):
    """Hidden neurons of each input."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(3, 4))
        self.down = nn.Parameter(torch.randn(3, 4))
        self.skip = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return (torch.tanh(x.unsqueeze(-1) * self.up) * self.down).sum((1, 2)), self.skip(x)


def test_hidden_neurons_of_each_input():
    spec = _traced(Additive().double(), torch.randn(5, 3, dtype=torch.float64))
    assert _line(spec, "up") == _line(spec, "down") == "x h1[x]"


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Conv2d(1, 6, 1), nn.ReLU(), nn.Conv2d(6, 12, 3, groups=3), nn.ReLU(), nn.Conv2d(12, 2, 1)],
        [nn.Conv2d(1, 6, 1), nn.GroupNorm(3, 6), nn.ReLU(), nn.Conv2d(6, 2, 1)],
    ],
    ids=["grouped convolution", "group norm"],
)
def test_members_of_each_group(layers):
    spec = _traced(nn.Sequential(*layers).double(), torch.randn(2, 1, 4, 4, dtype=torch.float64))
    assert _line(spec, "0.weight").startswith("(c1 c2[c1]) x")


def test_of_axes_that_are_each_over_the_other_the_first_is_outside():
    class Regrouped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(2, 12), nn.Linear(12, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.down(self.up(x).unflatten(-1, (3, 4)).tanh().flatten(1))

    spec = _traced(Regrouped().double(), torch.randn(5, 2, dtype=torch.float64))
    assert _line(spec, "up.weight") == "(h1 h2[h1]) x"
