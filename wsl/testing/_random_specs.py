"""Random specifications of every kind that encoders have to cope with, as a hypothesis strategy."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from wsl.spec import WeightSpec
from wsl.testing._draft import Draft
from wsl.testing._random_families import attention, experts, groups, interleaved, packed


def _mlp(draft: Draft) -> None:
    count = draft.integer(1, 4)
    biased = [draft.flag() for _ in range(count)]
    source = draft.axis("x", "input")
    for i in range(count - 1):
        producers = [f"layers.{i}.weight", f"layers.{i}.bias"][: 1 + biased[i]]
        axis = draft.scaled_axis(f"h{i + 1}", producers, f"layers.{i + 1}.weight")
        draft.layer(f"layers.{i}", axis, source, bias=biased[i])
        source = axis
    draft.layer(f"layers.{count - 1}", draft.axis("y", "output"), source, bias=biased[-1])


def _cnn(draft: Draft) -> None:
    dims = draft.integer(1, 3)
    source = draft.axis("x", "input")
    for i in range(draft.integer(1, 2)):
        axis = draft.axis(f"c{i + 1}")
        draft.layer(f"conv{i}", axis, source, kernel=draft.kernel(dims))
        if draft.flag():
            draft.norm(f"bn{i}", axis)
        source = axis
    pixels = " ".join(["4"] * draft.integer(0, 2))
    hidden = draft.axis("h1")
    draft.layer("fc1", hidden, f"({source} {pixels})" if pixels else source)
    draft.layer("fc2", draft.axis("y", "output"), hidden)


def _residual(draft: Draft) -> None:
    stream = draft.axis("h1")
    draft.layer("stem", stream, draft.axis("x", "input"))
    for i in range(draft.integer(1, 2)):
        inner = draft.axis(f"h{i + 2}")
        draft.layer(f"blocks.{i}.up", inner, stream)
        draft.layer(f"blocks.{i}.down", stream, inner)
    draft.tensor("norm.weight", stream)
    draft.layer("head", draft.axis("y", "output"), stream)


def _concat(draft: Draft) -> None:
    x, a, b = draft.axis("x", "input"), draft.axis("a"), draft.axis("b")
    draft.layer("left", a, x)
    draft.layer("right", b, x)
    draft.tensor("norm.weight", f"({a} + {b})")
    hidden = draft.axis("h1")
    out = f"({hidden} + {a})" if draft.flag() else hidden
    draft.layer("mix", out, f"({a} + {b})" if draft.flag() else f"({a} + {x} + {b})")
    draft.layer("head", draft.axis("y", "output"), f"({hidden} + {a} 2)" if draft.flag() else hidden)


def _depthwise(draft: Draft) -> None:
    channels = draft.axis("c1")
    draft.layer("stem", channels, draft.axis("x", "input"), kernel=draft.kernel(2))
    draft.tensor("depthwise.weight", channels, kernel=[1, *draft.kernel(2)])
    draft.norm("bn", channels)
    draft.layer("head", draft.axis("y", "output"), channels)


def _grouped(draft: Draft) -> None:
    groups, i, o = draft.axis("g"), draft.axis("i"), draft.axis("o")
    draft.layer("stem", f"({groups} {i})", draft.axis("x", "input"))
    draft.layer("grouped", f"({groups} {o})", i, kernel=draft.kernel(draft.integer(1, 2)))
    draft.layer("head", draft.axis("y", "output"), f"({groups} {o})")


def _recurrent(draft: Draft) -> None:
    x, hidden = draft.axis("x", "input"), draft.axis("h1")
    gates = f"({' + '.join([hidden] * 3)})" if draft.flag() else hidden
    draft.tensor("weight_ih", gates, x)
    draft.tensor("weight_hh", gates, hidden)
    draft.tensor("bias_ih", gates)
    draft.layer("head", draft.axis("y", "output"), hidden)


def _lstm(draft: Draft) -> None:
    """The output flips its sign with the cell gate, in a weight that carries the axis twice."""
    x, hidden = draft.axis("x", "input"), draft.axis("h1", "hidden tanh sign")
    gates = f"({' + '.join([hidden] * 4)})"
    draft.tensor("weight_ih", gates, x)
    draft.tensor("weight_hh", gates, hidden)
    draft.tensor("bias", gates)
    draft.layer("head", draft.axis("y", "output"), hidden, bias=False)
    reads = " ".join(f"weight_hh[{gate}]@1-1" for gate in range(4))
    draft.remark(f"scaling: h1 sign weight_ih[2]+1 weight_hh[2]@0+1 {reads} bias[2]+1 head.weight-1")


def _skip(draft: Draft) -> None:
    """A stream with branches: its node sets and identity edges are written out."""
    x, stream, inner, y = (
        draft.axis("x", "input"),
        draft.axis("h1"),
        draft.axis("h2"),
        draft.axis("y", "output"),
    )
    draft.tensor("stem.weight", stream, x, kernel=draft.kernel(draft.integer(0, 2)))
    draft.tensor("up.weight", inner, stream)
    draft.tensor("up.bias", inner)
    draft.tensor("down.weight", stream, inner)
    draft.norm("norm", stream)
    draft.tensor("head.weight", y, stream)
    draft.remark("nodes  x: x  h1: h1  h2: h2 relu  h1.2: h1 gelu  y: y")
    for edge in ("x h1 stem.weight", "h1 h2 up.weight", "- h2 up.bias", "h2 h1.2 down.weight", "h1 h1.2"):
        draft.remark(f"edge: {edge}")
    for part in ("weight", "bias", "running_mean", "running_var"):
        draft.remark(f"edge: - h1.2 norm.{part}")
    draft.remark("edge: h1.2 y head.weight")


def _low_rank(draft: Draft) -> None:
    """Any invertible matrix acts between two factors; the second layer adds a positive scaling beside it."""
    x, rank, y = draft.axis("x", "input"), draft.axis("r1", "hidden linear"), draft.axis("y", "output")
    draft.layer("down", rank, x, bias=False)
    hidden = draft.axis("h1", "hidden relu positive")
    draft.tensor("up.weight", hidden, rank)
    draft.layer("head", y, hidden, bias=False)
    draft.remark("scaling: r1 linear down.weight+1 up.weight-1")
    draft.remark("scaling: h1 positive up.weight+1 head.weight-1")


def _fixed(draft: Draft) -> None:
    first, fixed = draft.axis("h1"), draft.axis("f1", "fixed")
    draft.layer("layers.0", first, draft.axis("x", "input"))
    draft.layer("layers.1", fixed, first)
    draft.layer("layers.3", draft.axis("y", "output"), fixed)
    draft.tensor("slope", kernel=[1])
    draft.remark("note: f1 cumsum in layers.2")


def _bilinear(draft: Draft) -> None:
    x, a, b = draft.axis("x", "input"), draft.axis("h1"), draft.axis("h2")
    draft.layer("left", a, x)
    draft.layer("right", b, x)
    draft.tensor("bilinear.weight", draft.axis("y", "output"), a, b)
    draft.tensor("bilinear.bias", "y")


KINDS: dict[str, Callable[[Draft], None]] = {
    "mlp": _mlp,
    "cnn": _cnn,
    "residual": _residual,
    "concat": _concat,
    "depthwise": _depthwise,
    "grouped": _grouped,
    "recurrent": _recurrent,
    "packed": packed,
    "interleaved": interleaved,
    "fixed": _fixed,
    "bilinear": _bilinear,
    "attention": attention,
    "groups": groups,
    "experts": experts,
    "lstm": _lstm,
    "skip": _skip,
    "low_rank": _low_rank,
}


@st.composite
def _drawn_spec(draw: DrawFn, kind: str, max_size: int) -> WeightSpec:
    draft = Draft(draw, max_size)
    KINDS[kind](draft)
    return draft.spec()


def random_specs(kinds: Sequence[str] | None, max_size: int) -> SearchStrategy[WeightSpec]:
    """The strategy behind :func:`wsl.testing.random_specs`."""
    return st.one_of([_drawn_spec(kind, max_size) for kind in kinds or KINDS])
