"""Pictures of computational graphs: every neuron of small networks, every node set of large ones."""

import math
from pathlib import Path

from wsl.graph._arrange import arrange
from wsl.graph._canvas import save
from wsl.graph._computational import GraphError
from wsl.graph._drawing_neurons import draw_neurons
from wsl.graph._drawing_summary import draw_summary
from wsl.spec import WeightSpec

_FORMATS = (".svg", ".png")
_MOST = (300, 24, 16)


def draw(spec: WeightSpec, path: str | Path) -> Path:
    """Draw the computational graph of ``spec.topology``.

    Up to 300 neurons in up to 24 node sets and 16 layers are drawn one by one, with their connections. Of
    larger networks each node set is a box that names the tensors that make it and belong to it, with an arrow
    for each connection.

    Args:
        path: the picture to write, ``.svg`` or ``.png``.

    Returns:
        ``path``.

    Raises:
        GraphError: another kind of file, or a specification without node sets.
    """
    path = Path(path)
    if path.suffix.lower() not in _FORMATS:
        raise GraphError(f"{path} is no {' or '.join(_FORMATS)} file; pictures are drawn as one of these.")
    arrangement = arrange(spec)
    if not arrangement.layers:
        raise GraphError(
            "the specification has no node sets: no tensor carries an axis, so there is no graph."
        )
    sizes = {node.name: math.prod(spec.axes[axis].size for axis in node.axes) for node in spec.topology.nodes}
    counts = (sum(sizes.values()), len(sizes), len(arrangement.layers))
    small = all(count <= most for count, most in zip(counts, _MOST, strict=True))
    figure = (draw_neurons if small else draw_summary)(spec, arrangement)
    save(figure, path)
    return path
