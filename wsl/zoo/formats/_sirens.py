"""SIRENs as several zoos store them: a state dict with numbered layers."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo.formats._networks import match, tensors_of


class SirenNames:
    """How a zoo names the layers of its SIRENs.

    Args:
        hidden, last: the name before ``.weight`` and ``.bias`` of a hidden and of the last layer, with ``{}``
            for its number.
    """

    def __init__(self, hidden: str, last: str) -> None:
        self.hidden, self.last = hidden, last
        self._patterns = [
            re.compile(re.escape(name).replace(r"\{\}", r"(\d{1,3})")) for name in (hidden, last)
        ]

    def table(self, layers: int) -> dict[str, str]:
        """Name in the file -> name in :class:`wsl.models.Siren`, for a network of so many layers."""
        stems = [(self.hidden if i < layers - 1 else self.last).format(i) for i in range(layers)]
        return {f"{s}.{k}": f"layers.{i}.{k}" for i, s in enumerate(stems) for k in ("weight", "bias")}

    def widths(self, tensors: Mapping[str, np.ndarray], where: str) -> list[int]:
        """Inputs, hidden widths and outputs, read off the weights; raises ZooError if they do not chain."""
        stems = {name.removesuffix(".weight") for name in tensors if name.endswith(".weight")}
        layers = len({s for s in stems if any(pattern.fullmatch(s) for pattern in self._patterns)})
        if layers < 2:
            raise ZooError(
                f"{where}: expected the layers of a SIREN, such as {self.hidden.format(0)}.weight."
            )
        table = self.table(layers)
        if missing := [name for name in table if name not in tensors]:
            raise ZooError(f"{where}: missing tensors {', '.join(missing[:6])}.")
        shapes = [tensors[name].shape for name in table if name.endswith(".weight")]
        if any(len(shape) != 2 or 0 in shape for shape in shapes):
            raise ZooError(f"{where}: the layers have the shapes {shapes}, expected matrices.")
        return [shapes[0][1], *(shape[0] for shape in shapes)]

    def read(self, state: Any, widths: list[int], where: str) -> dict[str, np.ndarray]:
        """The tensors of one network under the names of :class:`wsl.models.Siren`."""
        table = self.table(len(widths) - 1)
        shapes: dict[str, tuple[int, ...]] = {}
        for i, (inputs, outputs) in enumerate(pairwise(widths)):
            shapes |= {f"layers.{i}.weight": (outputs, inputs), f"layers.{i}.bias": (outputs,)}
        return match(tensors_of(state, where), table, shapes, where)

    def write(self, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The inverse of :meth:`read`."""
        return {theirs: weights[ours] for theirs, ours in self.table(len(weights) // 2).items()}
