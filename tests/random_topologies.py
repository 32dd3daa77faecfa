"""Random topologies: any node sets, and blocks between them in any way that a specification allows."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from wsl.spec import Axis, Edge, NodeSet, SpecError, TensorSpec, WeightSpec

_NAMES = ("a", "b", "d", "x")


@st.composite
def random_topologies(draw: DrawFn) -> WeightSpec:
    """Specifications with 1 to 5 blocks of 1 to 3 uses each; the axis ``d`` is a family over ``a``.

    Node sets may have an axis twice; blocks may share axes with one end or both, or lack those of both. Each
    axis has a node set of its own with a bias.
    """
    sizes = {name: draw(st.integers(1, 3)) for name in _NAMES}
    axes = [Axis(name, sizes[name], "input" if name == "x" else "hidden") for name in _NAMES]
    axes[2] = Axis("d", sizes["d"], "hidden", family=("a",))
    sets = [
        NodeSet(f"n{i}", _closed(draw(st.lists(st.sampled_from(_NAMES), max_size=3))))
        for i in range(draw(st.integers(2, 4)))
    ]
    sets += [NodeSet(f"n.{name}", _closed([name])) for name in _NAMES]
    tensors = {f"own.{name}": TensorSpec.from_dims(_dims(_closed([name])), sizes) for name in _NAMES}
    edges: list[Edge] = []
    for i in range(draw(st.integers(1, 5))):
        key = f"w{i}.weight"
        drawn: list[tuple[str, str]] = []
        for use in range(draw(st.integers(1, 3))):
            source, target = (draw(st.sampled_from(sets)) for _ in range(2))
            if use == 0:
                drawn += _block(draw, source, target)
                tensors[key] = TensorSpec.from_dims(_dims([axis for axis, _ in drawn]), sizes)
                letters = "".join(end for _, end in drawn)
            else:
                letters = "".join(draw(st.sampled_from("tsb")) for _ in drawn)
            try:
                edges.append(Edge(source.name, target.name, key, letters))
                WeightSpec(axes, tensors, nodes=sets, edges=edges)
            except SpecError:
                edges.pop()
    used = {edge.block for edge in edges}
    tensors = {key: tensor for key, tensor in tensors.items() if key.startswith("own") or key in used}
    edges += [Edge(None, f"n.{name}", f"own.{name}") for name in _NAMES]
    for _ in range(draw(st.integers(0, 2))):
        edges.append(Edge(*(draw(st.sampled_from(sets)).name for _ in range(2))))
    return WeightSpec(axes, tensors, nodes=sets, edges=edges)


def _block(draw: DrawFn, source: NodeSet, target: NodeSet) -> list[tuple[str, str]]:
    """Axes of a block between two node sets, each with the ends that it indexes."""
    shared = [axis for axis in target.axes if axis in source.axes]
    chosen = [(axis, "b") for axis in dict.fromkeys(shared) if draw(st.booleans())]
    taken = [axis for axis, _ in chosen]
    for nodes, end in ((target, "t"), (source, "s")):
        chosen += [(axis, end) for axis in nodes.axes if axis not in taken and draw(st.booleans())]
    return draw(st.permutations(chosen))


def _closed(names: list[str]) -> tuple[str, ...]:
    """With ``a`` once where there is ``d``."""
    return ("a", *(name for name in names if name != "a")) if "d" in names else tuple(names)


def _dims(names: list[str] | tuple[str, ...]) -> tuple[tuple[tuple[str, ...]], ...]:
    return tuple(((name,),) for name in names)
