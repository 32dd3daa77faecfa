"""Families, node sets and edges of a specification: round trips, the default topology, stories, errors."""

import pickle
from collections import Counter
from dataclasses import replace

import pytest
from described_modules import MODULES
from described_topologies import described_topologies
from hypothesis import given, settings

from wsl.spec import Axis, Edge, Exponent, NodeSet, Scaling, SpecError, WeightSpec, edge_ends, stored_dims

ATTENTION = """
axes   h1: 2 hidden   d1: 3 hidden linear   h2: 4 hidden   h3: 5 hidden relu   x: 6 input   y: 7 output
embed        h2 x
qkv.weight   (h1 d1[h1] + h1 d1[h1] + h1 8) h2
qkv.bias     (h1 d1[h1] + h1 d1[h1] + h1 8)
out.weight   h2 (h1 8)
up.weight    h3 h2
down.weight  h2 h3
head         y h2
scaling:  d1 linear qkv.weight[0]+1 qkv.bias[0]+1 qkv.weight[1]-1 qkv.bias[1]-1
"""
RESIDUAL = "nodes x: x  h2: h2  h3: h3 relu  h2.1: h2  q: (h1 d1) softmax  y: y\nedge: h2 h2.1"
SQUARE = "axes a: 2 hidden tanh sign  b: 3 hidden\nw (a a) a\nv b"


@settings(max_examples=150)
@given(described_topologies())
def test_round_trips(spec):
    for back in (
        WeightSpec.parse(str(spec)),
        WeightSpec.from_json(spec.to_json()),
        pickle.loads(pickle.dumps(spec)),
    ):
        assert back == spec
        assert hash(back) == hash(spec)
        assert str(back) == str(spec)
        assert back.to_json() == spec.to_json()
        assert list(back.axes) == list(spec.axes)
        assert back.topology == spec.topology
    assert eval(repr(spec), {"WeightSpec": WeightSpec}) == spec


@settings(max_examples=150)
@given(described_topologies(given=False))
def test_the_default_topology_is_a_topology(spec):
    assert (spec.nodes, spec.edges) == ((), ())
    nodes, edges = spec.topology.nodes, spec.topology.edges
    spelled = [replace(edge, ends=edge_ends(spec, edge)) if edge.block else edge for edge in edges]
    given = WeightSpec(spec.axes, spec.tensors, spec.scalings, spec.notes, reversed(nodes), reversed(spelled))
    assert given == spec
    assert str(given) == str(spec)
    more = WeightSpec(
        spec.axes, spec.tensors, spec.scalings, nodes=[*nodes, NodeSet("more", ())], edges=spelled
    )
    assert more != replace(more, nodes=(), edges=())
    assert more.topology.edges == edges
    carried = Counter(edge.block for edge in edges if edge.block)
    assert carried == {ref.key: 1 for ref in spec.blocks if ref.block.neuron_dims}


@settings(max_examples=100)
@given(described_topologies())
def test_every_dimension_has_a_story(spec):
    for name, tensor in spec.tensors.items():
        for dim in range(len(tensor.dims)):
            story = spec.explain(name, dim)
            for axis in {f for term in tensor.dims[dim] for f in term if isinstance(f, str)}:
                assert f"{spec.axes[axis].size} neurons, {spec.axes[axis].kind}" in story
            assert max(map(len, story.splitlines()[1:])) <= 110


def test_families_are_written_where_they_are_used():
    spec = WeightSpec.parse(ATTENTION)
    assert spec.axes["d1"].family == ("h1",)
    assert spec.tensors["qkv.weight"].dims[0] == (("h1", "d1"), ("h1", "d1"), ("h1", 8))
    assert str(spec).splitlines()[1:3] == [
        "embed         h2 x",
        "qkv.weight    (h1 d1[h1] + h1 d1[h1] + h1 8) h2",
    ]


def test_families_are_kept_in_the_order_of_the_axes():
    text = "axes b: 2 hidden  a: 2 hidden  d: 3 hidden\nw a b d[a,b]\nv (a d[b,a]) b"
    spec = WeightSpec.parse(text)
    assert spec.axes["d"].family == ("b", "a")
    assert str(spec).splitlines()[1] == "w   a b d[b,a]"


def test_default_topology_of_attention():
    spec = WeightSpec.parse(ATTENTION)
    assert spec.topology.nodes == (
        NodeSet("h1", ("h1",)),
        NodeSet("d1", ("h1", "d1")),
        NodeSet("h2", ("h2",)),
        NodeSet("h3", ("h3",), "relu"),
        NodeSet("x", ("x",)),
        NodeSet("y", ("y",)),
    )
    edges = {edge.block: edge for edge in spec.topology.edges}
    assert edges["qkv.weight[0]"] == Edge("h2", "d1", "qkv.weight[0]")
    assert edges["qkv.weight[2]"] == Edge("h2", "h1", "qkv.weight[2]")
    assert edges["qkv.bias[1]"] == Edge(None, "d1", "qkv.bias[1]")
    assert edges["out.weight"] == Edge("h1", "h2", "out.weight")
    assert edge_ends(spec, edges["qkv.weight[0]"]) == "tts"
    assert edge_ends(spec, edges["qkv.bias[0]"]) == "tt"


def test_default_ends():
    lines = ["grouped (g o[g]) i[g]", "other o[g] g k", "one g", "square k k", "diagonal (g o[g])", "b k"]
    spec = WeightSpec.parse("\n".join(["axes g: 2 hidden  o: 3 hidden  i: 2 hidden  k: 4 hidden", *lines]))
    edges = [
        Edge("i", "o", "grouped"),
        Edge("k", "o", "other"),
        Edge("g", "g2", "one"),
        Edge("k", "k", "square"),
        Edge("o", "o", "diagonal"),
        Edge(None, "k", "b"),
    ]
    assert [edge_ends(spec, edge) for edge in edges] == ["bts", "tts", "b", "ts", "bb", "t"]


def test_default_topology_of_products_and_three_ended_tensors():
    spec = WeightSpec.parse(
        "axes a: 2 hidden  a.b: 2 input  b: 3 hidden  y: 4 output\nw y (a b)\nv a.b b\nu (a a)"
    )
    assert spec.topology.nodes[4:] == (NodeSet("a.b_", ("a", "b")), NodeSet("a.a", ("a", "a")))
    assert spec.topology.edges == (
        Edge("a.b_", "y", "w"),
        Edge("b", "a.b", "v"),
        Edge(None, "a.a", "u"),
        Edge("a", "a.b_"),
        Edge("b", "a.b_"),
        Edge("a", "a.a"),
    )


def test_ends_that_go_without_saying_are_dropped():
    text = ATTENTION + RESIDUAL
    spelled = WeightSpec.parse(text + "\nedge: x h2 embed ends=ts\nedge: h2 h3 up.weight")
    assert spelled.edges == (Edge("h2", "h2.1"), Edge("x", "h2", "embed"), Edge("h2", "h3", "up.weight"))
    assert spelled == WeightSpec.parse(text + "\nedge: x h2 embed\nedge: h2 h3 up.weight ends=ts")
    turned = WeightSpec.parse(text + "\nedge: h2 x embed ends=st")
    assert turned.edges[1].ends == "st"
    assert "edge:  h2 x embed ends=st" in str(turned).splitlines()


def test_edges_between_two_sets_share_a_line():
    text = "axes a: 2 hidden  x: 2 input\nw a x\nv a a\nu a\nnodes x: x  a: a  b: a relu\n"
    names = ["x a w", "a b v", "- a u", "a b", "- b u", "a b v ends=st", "a b", "x b w", "a b u"]
    spec = WeightSpec.parse(text + "\n".join(f"edge: {name}" for name in names))
    lines = ["x a w", "a b", "a b", "a b v v ends=st u", "- a u", "- b u", "x b w"]
    assert str(spec).splitlines()[-len(lines) :] == [f"edge:  {line}" for line in lines]
    assert WeightSpec.parse(str(spec)) == spec
    assert Edge("a", "b", "v", "st") in spec.edges and spec.edges.count(Edge("a", "b")) == 2


def test_long_edges_are_continued():
    tensors = "\n".join(f"blocks.{i}.norm.weight a" for i in range(20))
    spec = WeightSpec.parse(f"axes a: 2 hidden\n{tensors}\nnodes a: a  b: a")
    edges = [Edge(source, "b", key) for source in ("a", None) for key in spec.tensors]
    spec = WeightSpec(spec.axes, spec.tensors, nodes=spec.nodes, edges=edges)
    lines = [line for line in str(spec).splitlines() if "norm.weight" in line][20:]
    assert lines[0].startswith("edge:  a b blocks.0.norm.weight blocks.1") and max(map(len, lines)) <= 110
    assert sum(line.endswith(" \\") for line in lines) == len(lines) - 2
    assert WeightSpec.parse(str(spec)) == spec == eval(repr(spec)) and spec.edges == tuple(edges)


def test_the_topology_is_part_of_the_value():
    base = ATTENTION + RESIDUAL
    texts = [ATTENTION, base, base + "\nedge: h2.1 h3 up.weight", base + "\nedge: h2 h3 up.weight"]
    texts.append(base.replace("h3: h3 relu", "h3: h3 gelu"))
    assert len(set(map(WeightSpec.parse, texts))) == len(texts)


def test_nodes_is_no_reserved_name():
    spec = WeightSpec.parse("axes a: 2 hidden\nnodes a\nw (a nodes[a])".replace("(a nodes[a])", "a a"))
    assert list(spec.tensors) == ["nodes", "w"]
    assert WeightSpec.parse(str(spec)) == spec


def test_many_node_sets_wrap_and_parse():
    spec = WeightSpec.parse("axes a: 2 hidden\nw a a")
    nodes = [NodeSet(f"layers.{i}.activation", ("a", "a")[: i % 3], "gelu") for i in range(30)]
    many = WeightSpec(spec.axes, spec.tensors, nodes=nodes)
    lines = [line for line in str(many).splitlines() if line.startswith("nodes")]
    assert len(lines) > 5 and max(map(len, lines)) <= 110
    assert WeightSpec.parse(str(many)).nodes == tuple(nodes)


def test_long_scalings_are_continued():
    axis = Axis("h", 2, "hidden", "relu", "positive")
    tensor = WeightSpec.parse("axes h: 2 hidden\nw h").tensors["w"]
    names = [f"blocks.{i}.layers.{i}.weight" for i in range(12)] + ["long" * 40]
    spec = WeightSpec(
        [axis], dict.fromkeys(names, tensor), [Scaling("h", "positive", [(n, 1) for n in names])]
    )
    lines = str(spec).splitlines()[-5:]
    assert lines[0].startswith("scaling:  h positive blocks.0.layers.0.weight+1 blocks.1")
    assert all(line.endswith(" \\") and len(line) <= 110 for line in lines[:-1])
    assert lines[-1] == "    " + "long" * 40 + "+1"
    assert WeightSpec.parse(str(spec)) == spec == eval(repr(spec))


def test_plain_tuples_become_exponents():
    scaling = Scaling("a", "sign", [("w", 1), ("v", -1, 2)])
    assert scaling.exponents == (Exponent("w", 1), Exponent("v", -1, 2))
    assert [str(exponent) for exponent in scaling.exponents] == ["w+1", "v@2-1"]


def test_stored_dims_of_view_dims():
    spec = WeightSpec.parse("axes a: 2 hidden  b: 3 hidden\nw (a b + a 2) a _ (b 2)  _=5\ns")
    w = spec.tensors["w"]
    assert [stored_dims(w, block) for block in w.blocks] == [(0, 0, 1, 2, 3, 3)] * 2
    assert stored_dims(spec.tensors["s"], spec.tensors["s"].blocks[0]) == ()


def test_the_story_of_an_axis():
    cnn = MODULES["cnn"].spec
    assert cnn.explain("conv1.weight", 0).splitlines() == [
        "dimension 0 of conv1.weight   c1 x _ _   _=3x3",
        "c1: 4 neurons, hidden: they may be reordered",
        "  positive factors may rescale them, through relu",
        "    positive: conv1.weight+1 conv1.bias+1 bn.running_mean+1 bn.weight-1",
        "    positive: bn.weight+1 bn.bias+1 conv2.weight-1",
        "  node set c1, read after relu",
        "    made by: conv1.weight from x",
        "    with: conv1.bias, bn.weight, bn.bias, bn.running_mean, bn.running_var",
        "    read by: conv2.weight into c2",
    ]
    assert cnn.explain("fc.weight", 1).splitlines()[:2] == [
        "dimension 1 of fc.weight   y (c2 4 4)",
        "(c2 4 4): size 48, of these parts",
    ]
    fixed = WeightSpec.parse("axes f1: 3 fixed\nw f1\nv _ _  _=1x2\nnote: f1 cumsum in layers.2")
    assert "  because: cumsum in layers.2" in fixed.explain("w", 0).splitlines()
    assert "2: positions" in fixed.explain("v", 1)
    story = WeightSpec.parse(ATTENTION + RESIDUAL).explain("qkv.weight", 0)
    for line in (
        "d1[h1]: 3 neurons, hidden: they may be reordered",
        "  in another order for each index of: h1",
        "  any invertible matrix may act on them",
        "  each with its own order of: d1",
        "  node set q of (h1 d1), read after softmax",
        "8: positions, as of a kernel or of pixels, which index no neurons",
    ):
        assert line in story.splitlines()
    assert "an identity into h2.1" in WeightSpec.parse(ATTENTION + RESIDUAL).explain("embed", 0)


@pytest.mark.parametrize(
    ("tensor", "dim", "message"),
    [
        ("v", 0, "the spec has no tensor 'v'; it has, among others, embed, qkv.weight"),
        ("head", 2, "head has no dimension 2; its dimensions: 0 is y, 1 is h2"),
        ("head", -3, "head has no dimension -3"),
    ],
)
def test_stories_of_what_is_not_there(tensor, dim, message):
    with pytest.raises(SpecError, match=message):
        WeightSpec.parse(ATTENTION).explain(tensor, dim)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("axes d: 2 hidden\nw d[h]", "the family of axis d names h, which is not declared; declared: d"),
        ("axes d: 2 hidden\nw d[d]", "axis d has the family d; name other axes, each once"),
        ("axes h: 2 hidden  d: 2 hidden\nw h d[h,h]", "axis d has the family h, h; name other axes"),
        ("axes h: 2 hidden  d: 2 input\nw h d[h]", "axis d is input and has the family h; only hidden"),
        ("axes h: 2 hidden  d: 2 hidden\nw d[h]\nv h", "block w carries d\\[h\\] and h 0 times: d"),
        ("axes h: 2 hidden  d: 2 hidden\nw h h d[h]", "block w carries d\\[h\\] and h 2 times: h h d"),
        ("axes h: 2 hidden  d: 2 hidden\nw (h d[h] + d[h])", "block w\\[1\\] carries d\\[h\\] and h 0 times"),
        (
            "axes h: 2 hidden  d: 2 hidden\nw h d[h]\nv h d",
            r"axis d is used as d\[h\] before, and as d; .*\n.* v h d",
        ),
        ("axes h: 2 hidden  d: 2 hidden\nw h d\nv h d[h]", r"axis d is used as d before, and as d\[h\]"),
        ("axes h: 2 hidden  d: 2 hidden\nw h d[h", r"'d\[h' is no axis; .*\n  in line 2: w h d\[h"),
        ("axes h: 2 hidden  d: 2 hidden\nw h d[]", r"'d\[\]' is no axis; write"),
        ("axes h: 2 hidden\nw h 5[h]", r"'5\[h\]' is no axis; write"),
        (
            "axes a: 2 hidden  b: 2 hidden  d: 2 hidden\nw a b[a] d[b]",
            "the family of axis d holds b but not a, over which b itself is a family",
        ),
        ("axes a: 2 hidden  b: 2 hidden\nw a[b] b[a]", "the family of axis a holds b but not a"),
    ],
)
def test_malformed_families_are_explained(text, message):
    with pytest.raises(SpecError, match=message):
        WeightSpec.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "scaling: a sign w+1",
            r"view dimensions 0, 1, 2 all carry that axis: a a a.\n  Say which, as in w@0\+1",
        ),
        ("scaling: a sign w@3+1", "names dimension 3 of block w, whose view is a a a; give one of 0, 1, 2"),
        ("scaling: b sign v@0+1", "names dimension 0 of block v, whose view is b; leave it out"),
        ("scaling: a sign w@0+1 w@0+1", "names block w twice; add up the powers"),
        ("scaling: b linear v+2", r"has power 2 for v; expected \+1 or -1"),
        ("scaling: b linear v+1\nscaling: b sign v+1", "axis b has a linear scaling beside another one"),
        ("scaling: b positive v+1\nscaling: b linear v+1", "axis b has a linear scaling beside another one"),
        ("scaling: b linear v+1\nscaling: b linear v-1", "axis b has a linear scaling beside another one"),
    ],
)
def test_malformed_exponents_are_explained(text, message):
    with pytest.raises(SpecError, match=message):
        WeightSpec.parse(SQUARE.replace("b: 3 hidden", "b: 3 hidden linear") + "\n" + text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes h2: h9", "node set h2 names axis h9, which is not declared; declared: h1, d1"),
        ("nodes q: d1", r"node set q carries d1 and h1 0 times: \(d1\).\n  d1 is a family over h1"),
        ("nodes q: (h1 d1 h1)", "node set q carries d1 and h1 2 times"),
        ("nodes a: h2  a: h3", "a node set is declared twice: a, a"),
        ("nodes 1: h2", "'1' is no name of a node set"),
        ("nodes a: h2 positive", "node set a has activation 'positive'; give one word"),
        ("nodes a: h2 relu gelu", "node set a is declared as 'h2 relu gelu'; expected 'axis"),
        ("nodes a:", "node set a is declared as ''"),
        ("nodes a: (h2", r"node set a is declared as '\(h2'"),
        ("nodes a: h2\nnodes h2 h3: h3", "'h3:' is no axis; write"),
        ("nodes: a: h2", "a line begins with 'axes', .*; not with 'nodes:'"),
        ("edge: a", r"expected 'source target \[block \[ends=…\]\] …' after 'edge:', got 'a'"),
        ("edge: a b ends=t", "expected 'source target"),
        ("edge: a b c ends=t ends=t", "expected 'source target"),
        ("nodes a: h2\nedge: a a embed ends=t head", "edge a a embed has ends 't', but"),
        ("edge: a x", "edge a x names node set a, which is not declared; declared: none"),
        ("nodes a: h2\nedge: a b", "edge a b names node set b, which is not declared; declared: a"),
        ("nodes a: h2\nedge: - a", "edge - a has no block: it is an identity"),
        ("nodes a: h2\nedge: a a head.weight", "the spec has no block 'head.weight'; similar ones: "),
        ("nodes a: h2\nedge: a a head ends=t", "edge a a head has ends 't', but the block carries y h2"),
        ("nodes a: h2\nedge: a a head ends=tx", "edge a a head has ends 'tx'.*t \\(target\\), s"),
        (
            "nodes a: h2\nedge: a a head",
            r"edge a a head has ends 'ts' for y h2, but node set a has .*, without y",
        ),
        (
            "nodes a: h2 b: y\nedge: - b head",
            r"has ends 'tt' for y h2, but node set b has \(y\), without h2",
        ),
        ("nodes a: h2 b: y\nedge: - b head ends=ts", "ends 'ts' for y h2, but it has no source, without h2"),
        ("nodes a: h2 b: y\nedge: a b head ends=tb", r"but node set b has \(y\), without h2"),
    ],
)
def test_malformed_topologies_are_explained(text, message):
    with pytest.raises(SpecError, match=message):
        WeightSpec.parse(ATTENTION + text)


def test_malformed_values_are_explained():
    spec = WeightSpec.parse(ATTENTION)
    with pytest.raises(SpecError, match="is an identity, which has a source and a target, and no ends"):
        replace(spec, nodes=[NodeSet("a", ("h2",))], edges=[Edge("a", "a", ends="")])
    with pytest.raises(SpecError, match="axis h has scaling 'any'; it is linear, positive, sign or None"):
        Axis("h", 2, "hidden", scaling="any")
    with pytest.raises(SpecError, match="axis h has activation 'linear'; give one word"):
        Axis("h", 2, "hidden", "linear")
    with pytest.raises(SpecError, match="no block 'up'; similar ones: up.weight"):
        spec.block("up")
    with pytest.raises(SpecError, match="'w@0' cannot be written.*'@' and a number"):
        WeightSpec([spec.axes["h2"]], {"w@0": WeightSpec.parse("axes h2: 4 hidden\nw h2").tensors["w"]})
