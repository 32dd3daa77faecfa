"""The text of a random specification while a hypothesis strategy writes it."""

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from wsl.spec import WeightSpec

ACTIVATIONS = {"relu": "positive", "sin": "sign", "tanh": "sign", "gelu": ""}


class Draft:
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
        """Write a line that follows the tensors: a scaling, a note, node sets or an edge."""
        self._remarks.append(line)

    def axis(self, name: str, kind: str = "hidden", size: int | None = None) -> str:
        """Declare an axis of random size and return its name."""
        self._axes.append(f"{name}: {size or self.integer(1, self._max_size)} {kind}")
        return name

    def family(self, name: str, *contexts: str, words: str = "hidden") -> str:
        """Declare a hidden axis with a family over others, and return how its uses are written."""
        return f"{self.axis(name, words)}[{','.join(contexts)}]"

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
