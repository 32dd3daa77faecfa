"""Random specifications of every kind that encoders have to cope with, as a hypothesis strategy."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from wsl.spec import WeightSpec

ACTIVATIONS = {"relu": "positive", "sin": "sign", "tanh": "sign", "gelu": ""}


class _Draft:
    """The text of a specification while a strategy writes it."""

    def __init__(self, draw: DrawFn, max_size: int) -> None:
        self._draw, self._max_size = draw, max_size
        self._axes: list[str] = []
        self._tensors: list[str] = []
        self._remarks: list[str] = []

    def spec(self) -> WeightSpec:
        return WeightSpec.parse("\n".join([f"axes {' '.join(self._axes)}", *self._tensors, *self._remarks]))

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def flag(self) -> bool:
        return self._draw(st.booleans())

    def remark(self, line: str) -> None:
        """Write a line that follows the tensors: a scaling or a note."""
        self._remarks.append(line)

    def axis(self, name: str, kind: str = "hidden", size: int | None = None) -> str:
        """Declare an axis of random size and return its name."""
        self._axes.append(f"{name}: {size or self.integer(1, self._max_size)} {kind}")
        return name

    def scaled_axis(self, name: str, producers: Sequence[str], consumer: str) -> str:
        """A hidden axis with a random activation, and the scaling that the activation allows."""
        activation = self._draw(st.sampled_from(sorted(ACTIVATIONS)))
        scaling = ACTIVATIONS[activation]
        self.axis(name, f"hidden {activation} {scaling}")
        if scaling:
            powers = " ".join(f"{key}+1" for key in producers)
            self.remark(f"scaling: {name} {scaling} {powers} {consumer}-1")
        return name

    def tensor(self, name: str, *dims: str, kernel: Sequence[int] = ()) -> None:
        """Write one tensor; ``kernel`` appends anonymous dimensions of these sizes."""
        sizes = f"  _={'x'.join(map(str, kernel))}" if kernel else ""
        self._tensors.append(f"{name}  {' '.join(dims)}{' _' * len(kernel)}{sizes}")

    def layer(
        self, name: str, out: str, source: str, *, bias: bool | None = None, kernel: Sequence[int] = ()
    ) -> None:
        """A weight and, unless drawn or told otherwise, a bias."""
        self.tensor(f"{name}.weight", out, source, kernel=kernel)
        if self.flag() if bias is None else bias:
            self.tensor(f"{name}.bias", out)

    def norm(self, name: str, axis: str) -> None:
        """The parameters and running statistics of a batch normalisation."""
        for part in ("weight", "bias", "running_mean", "running_var"):
            self.tensor(f"{name}.{part}", axis)

    def kernel(self, dims: int) -> list[int]:
        return [self.integer(1, 3) for _ in range(dims)]


def _mlp(draft: _Draft) -> None:
    count = draft.integer(1, 4)
    biased = [draft.flag() for _ in range(count)]
    source = draft.axis("x", "input")
    for i in range(count - 1):
        producers = [f"layers.{i}.weight", f"layers.{i}.bias"][: 1 + biased[i]]
        axis = draft.scaled_axis(f"h{i + 1}", producers, f"layers.{i + 1}.weight")
        draft.layer(f"layers.{i}", axis, source, bias=biased[i])
        source = axis
    draft.layer(f"layers.{count - 1}", draft.axis("y", "output"), source, bias=biased[-1])


def _cnn(draft: _Draft) -> None:
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


def _residual(draft: _Draft) -> None:
    stream = draft.axis("h1")
    draft.layer("stem", stream, draft.axis("x", "input"))
    for i in range(draft.integer(1, 2)):
        inner = draft.axis(f"h{i + 2}")
        draft.layer(f"blocks.{i}.up", inner, stream)
        draft.layer(f"blocks.{i}.down", stream, inner)
    draft.tensor("norm.weight", stream)
    draft.layer("head", draft.axis("y", "output"), stream)


def _concat(draft: _Draft) -> None:
    x, a, b = draft.axis("x", "input"), draft.axis("a"), draft.axis("b")
    draft.layer("left", a, x)
    draft.layer("right", b, x)
    draft.tensor("norm.weight", f"({a} + {b})")
    hidden = draft.axis("h1")
    out = f"({hidden} + {a})" if draft.flag() else hidden
    draft.layer("mix", out, f"({a} + {b})" if draft.flag() else f"({a} + {x} + {b})")
    draft.layer("head", draft.axis("y", "output"), f"({hidden} + {a} 2)" if draft.flag() else hidden)


def _depthwise(draft: _Draft) -> None:
    channels = draft.axis("c1")
    draft.layer("stem", channels, draft.axis("x", "input"), kernel=draft.kernel(2))
    draft.tensor("depthwise.weight", channels, kernel=[1, *draft.kernel(2)])
    draft.norm("bn", channels)
    draft.layer("head", draft.axis("y", "output"), channels)


def _grouped(draft: _Draft) -> None:
    groups, i, o = draft.axis("g"), draft.axis("i"), draft.axis("o")
    draft.layer("stem", f"({groups} {i})", draft.axis("x", "input"))
    draft.layer("grouped", f"({groups} {o})", i, kernel=draft.kernel(draft.integer(1, 2)))
    draft.layer("head", draft.axis("y", "output"), f"({groups} {o})")


def _recurrent(draft: _Draft) -> None:
    x, hidden = draft.axis("x", "input"), draft.axis("h1")
    gates = f"({' + '.join([hidden] * 3)})" if draft.flag() else hidden
    draft.tensor("weight_ih", gates, x)
    draft.tensor("weight_hh", gates, hidden)
    draft.tensor("bias_ih", gates)
    draft.layer("head", draft.axis("y", "output"), hidden)


def _packed(draft: _Draft) -> None:
    stream, heads, inner = draft.axis("h1"), draft.axis("a1"), draft.axis("d1")
    draft.tensor("position", stream, kernel=[draft.integer(1, 4)])
    draft.layer("embed", stream, draft.axis("x", "input"))
    values = f"{heads} {inner}" if draft.flag() else f"{heads} {draft.integer(1, 3)}"
    draft.layer("qkv", f"({heads} {inner} + {heads} {inner} + {values})", stream)
    draft.layer("out", stream, f"({values})")
    draft.tensor("temperature")
    draft.layer("head", draft.axis("y", "output"), stream)


def _fixed(draft: _Draft) -> None:
    first, fixed = draft.axis("h1"), draft.axis("f1", "fixed")
    draft.layer("layers.0", first, draft.axis("x", "input"))
    draft.layer("layers.1", fixed, first)
    draft.layer("layers.3", draft.axis("y", "output"), fixed)
    draft.tensor("slope", kernel=[1])
    draft.remark("note: f1 cumsum in layers.2")


def _bilinear(draft: _Draft) -> None:
    x, a, b = draft.axis("x", "input"), draft.axis("h1"), draft.axis("h2")
    draft.layer("left", a, x)
    draft.layer("right", b, x)
    draft.tensor("bilinear.weight", draft.axis("y", "output"), a, b)
    draft.tensor("bilinear.bias", "y")


FAMILIES: dict[str, Callable[[_Draft], None]] = {
    "mlp": _mlp,
    "cnn": _cnn,
    "residual": _residual,
    "concat": _concat,
    "depthwise": _depthwise,
    "grouped": _grouped,
    "recurrent": _recurrent,
    "packed": _packed,
    "fixed": _fixed,
    "bilinear": _bilinear,
}


@st.composite
def _drawn_spec(draw: DrawFn, family: str, max_size: int) -> WeightSpec:
    draft = _Draft(draw, max_size)
    FAMILIES[family](draft)
    return draft.spec()


def random_specs(families: Sequence[str] | None, max_size: int) -> SearchStrategy[WeightSpec]:
    """The strategy behind :func:`wsl.testing.random_specs`."""
    return st.one_of([_drawn_spec(family, max_size) for family in families or FAMILIES])
