"""A hypothesis strategy of specifications of any shape, with families, scalings, node sets and edges."""

from dataclasses import replace

from hypothesis import strategies as st

from wsl.spec import Axis, Edge, Exponent, NodeSet, Note, Scaling, TensorSpec, WeightSpec


def closed(names, families):
    """``names`` with the axes that their families are over, each once; families last."""
    return (*dict.fromkeys(outer for name in names for outer in families[name] if outer not in names), *names)


@st.composite
def draw_axes(draw):
    """One to five axes; later ones may be families over earlier ones, in any order of declaration."""
    axes, families = [], {}
    for i in range(draw(st.integers(1, 5))):
        name = f"{draw(st.sampled_from('abc'))}.{i}"
        family = draw(st.lists(st.sampled_from(sorted(families)), unique=True)) if families else []
        families[name] = tuple(dict.fromkeys(closed(family, families)))
        kind = "hidden" if families[name] else draw(st.sampled_from(["hidden", "input", "output", "fixed"]))
        activation = draw(st.sampled_from([None, "relu"]))
        axes.append(Axis(name, draw(st.integers(1, 3)), kind, activation, family=families[name]))
    return draw(st.permutations(axes))


@st.composite
def draw_dims(draw, names, families):
    """Dimensions that carry ``names``, closed under families: one is a sum, others are products."""
    rest = list(draw(st.permutations(closed(names, families))))
    dims = []
    while rest:
        count = draw(st.integers(1, len(rest)))
        dims.append((tuple(rest[:count]),))
        rest = rest[count:]
    present = {name for dim in dims for name in dim[0]}
    inner = [name for name in families if set(families[name]) <= present and name not in present]
    terms = draw(st.lists(st.sampled_from([*inner, 2, 3]), min_size=1, max_size=3))
    dims.insert(draw(st.integers(0, len(dims))), tuple((term,) for term in terms))
    return tuple(dims)


@st.composite
def draw_edge(draw, spec, ref, families):
    """An edge for a block, and node sets that carry what its ends say."""
    axes = [ref.block.axes[dim] for dim in ref.block.neuron_dims]
    letters = draw(st.sampled_from(["t", "tsb"]))
    ends = "".join(draw(st.sampled_from(letters)) for _ in axes)
    sides = []
    for side in ("tb", "sb"):
        names = [axis for axis, end in zip(axes, ends, strict=True) if end in side]
        inner = [name for name in names if name not in {o for other in names for o in families[other]}]
        sides.append(closed(inner, families))
    activation = st.sampled_from([None, "softmax"])
    target = NodeSet(
        f"{draw(st.sampled_from('pq'))}{ref.key.replace('[', '_').rstrip(']')}", sides[0], draw(activation)
    )
    source = NodeSet(f"s{ref.key.replace('[', '_').rstrip(']')}", sides[1], draw(activation))
    if letters == "t":
        return [target], Edge(None, target.name, ref.key, ends)
    return [target, source], Edge(source.name, target.name, ref.key, ends)


@st.composite
def described_topologies(draw, *, given=True):
    """Specifications; ``given``: with node sets and edges of their own."""
    axes = draw(draw_axes())
    families = {axis.name: axis.family for axis in axes}
    sizes = {axis.name: axis.size for axis in axes}
    tensors = {"w0": TensorSpec.from_dims(draw(draw_dims(tuple(families), families)), sizes)}
    for i in range(draw(st.integers(0, 3))):
        names = draw(st.lists(st.sampled_from(sorted(families)), unique=True))
        outer = {o for name in names for o in families[name]}
        names = tuple(name for name in names if name not in outer)
        tensors[f"w{i + 1}"] = TensorSpec.from_dims(draw(draw_dims(names, families)), sizes)
    bare = WeightSpec(axes, tensors)
    scalings = []
    for axis in bare.hidden_axes if draw(st.booleans()) else ():
        refs = [ref for ref in bare.blocks if axis.name in ref.block.axes]
        kind = draw(st.sampled_from([None, "linear", "positive", "sign"]))
        if kind and refs:
            exponents = []
            for ref in refs:
                dims = [i for i, name in enumerate(ref.block.axes) if name == axis.name]
                for dim in dims:
                    power = draw(st.sampled_from([1, -1] if kind == "linear" else [1, -1, 2]))
                    exponents.append(Exponent(ref.key, power, dim if len(dims) > 1 else None))
            scalings.append(Scaling(axis.name, kind, exponents))
            axes = [replace(other, scaling=kind) if other.name == axis.name else other for other in axes]
    nodes, edges = [NodeSet("one", ())], []
    for ref in bare.blocks if given else ():
        sets, edge = draw(draw_edge(bare, ref, families))
        nodes += sets
        edges += [edge, *([Edge("one", sets[0].name)] if draw(st.booleans()) else [])]
    notes = [Note(axis.name, "sort in layers.2") for axis in axes if axis.kind == "fixed"]
    return WeightSpec(axes, tensors, scalings, notes, nodes if given else (), edges)
