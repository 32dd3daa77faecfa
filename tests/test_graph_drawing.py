"""Pictures of computational graphs: what they show, that nothing overlaps, and that arrows point onwards."""

import html
import itertools
import re

import pytest
from described_topologies import described_topologies
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread
from matplotlib.patches import FancyBboxPatch

from wsl.graph import GraphError, draw
from wsl.graph._arrange import Arrow, arrange, lanes
from wsl.graph._canvas import join_keys, join_modules
from wsl.graph._drawing_neurons import connections
from wsl.graph._drawing_summary import draw_summary
from wsl.spec import WeightSpec
from wsl.testing import random_specs

SPEC = """
axes   h1: {heads} hidden   d1: {inner} hidden   h2: {stream} hidden   h3: {wide} hidden gelu
axes   x: 3 input   y: 2 output
embed.weight    h2 x
embed.bias      h2
qkv.weight      (h1 d1[h1] + h1 d1[h1] + h1 d1[h1]) h2
out.weight      h2 (h1 d1[h1])
norm.weight     h2
norm.bias       h2
up.weight       h3 h2
down.weight     h2 h3
head.weight     y h2
nodes  x: x  s: h2  q: (h1 d1)  v: (h1 d1) softmax  s.2: h2  h3: h3 gelu  s.3: h2  y: y
edge: x s embed.weight
edge: - s embed.bias
edge: s q qkv.weight[0]
edge: s q qkv.weight[1]
edge: s v qkv.weight[2]
edge: q v
edge: v s.2 out.weight
edge: s s.2
edge: - s.2 norm.weight
edge: - s.2 norm.bias
edge: s.2 h3 up.weight
edge: h3 s.3 down.weight
edge: s.2 s.3
edge: s.3 s
edge: s.3 s.3
edge: s.3 y head.weight
"""
SMALL = WeightSpec.parse(SPEC.format(heads=2, inner=3, stream=4, wide=5))
LARGE = WeightSpec.parse(SPEC.format(heads=8, inner=64, stream=512, wide=2048))


def words(path) -> list[str]:
    return [html.unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", path.read_text("utf-8"))]


def chain(length: int) -> WeightSpec:
    """A residual stream of ``length`` blocks, as deep networks have."""
    axes = ["x: 3 input", "s: 600 hidden", *(f"h{i}: 400 hidden relu" for i in range(length))]
    tensors, nodes, edges = ["stem s x"], ["x: x", "s: s"], ["edge: x s stem"]
    for i in range(length):
        last, here = ("s" if i == 0 else f"s.{i}"), f"s.{i + 1}"
        tensors += [f"blocks.{i}.up h{i} s", f"blocks.{i}.down s h{i}"]
        nodes += [f"h{i}: h{i} relu", f"{here}: s"]
        edges += [
            f"edge: {last} h{i} blocks.{i}.up",
            f"edge: h{i} {here} blocks.{i}.down",
            f"edge: {last} {here}",
        ]
    lines = [f"axes {' '.join(axes)}", *tensors, f"nodes {' '.join(nodes)}", *edges]
    return WeightSpec.parse("\n".join(lines))


def test_small_networks_show_every_neuron(tmp_path):
    path = draw(SMALL, tmp_path / "pictures" / "small.svg")
    shown = words(path)
    for text in (
        "x  3", "s  (h2)  4", "q  (h1 d1)  2x3", "v  (h1 d1)  2x3  softmax", "h3  5  gelu", "+ embed.bias",
        "+ norm.*", "qkv.weight[0,1]", "qkv.weight[2]", "out.weight", "head.weight", "identity",
    ):  # fmt: skip
        assert text in shown, text
    neurons = 3 + 4 + 6 + 6 + 4 + 5 + 4 + 2
    assert path.read_text("utf-8").count("<use ") == neurons


def test_large_networks_show_every_node_set(tmp_path):
    shown = words(draw(LARGE, tmp_path / "large.svg"))
    for text in (
        "x  3", "s  (h2)  512", "q  (h1 d1)  8x64", "v  (h1 d1)  8x64  softmax", "h3  2048  gelu",
        "embed.weight from x", "+ embed.bias", "+ norm.*", "qkv.weight[0,1] from s", "qkv.weight[2] from s",
        "identity from s.3", "head.weight from s.3",
    ):  # fmt: skip
        assert text in shown, text


def test_pictures_are_files_of_pixels_too(tmp_path):
    for spec in (SMALL, LARGE):
        pixels = imread(draw(spec, tmp_path / "picture.PNG"))
        assert min(pixels.shape[:2]) > 200 and 0.005 < (pixels[..., :3].mean(-1) < 0.9).mean() < 0.5


def test_equal_specifications_make_equal_files(tmp_path):
    one, two = draw(SMALL, tmp_path / "one.svg"), draw(WeightSpec.parse(str(SMALL)), tmp_path / "two.svg")
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("spec", [LARGE, chain(2), chain(40)], ids=["attention", "shallow", "deep"])
def test_boxes_lie_apart_on_the_page(spec):
    figure = draw_summary(spec, arrange(spec))
    width, height = figure.get_size_inches()
    boxes = [p.get_path().get_extents(p.get_patch_transform()) for p in figure.axes[0].patches
             if isinstance(p, FancyBboxPatch) and p.get_linewidth() > 1]  # fmt: skip
    assert len(boxes) == len(spec.topology.nodes)
    for a, b in itertools.combinations(boxes, 2):
        assert a.x1 < b.x0 or b.x1 < a.x0 or a.y1 < b.y0 or b.y1 < a.y0
    assert all(b.x0 > 0 and b.x1 < width and b.y0 > 0 and b.y1 < height for b in boxes)
    assert max(width, height) < 2.5 * min(width, height) + 8


@settings(max_examples=60)
@given(st.one_of(described_topologies(), described_topologies(given=False), random_specs()))
def test_arrows_point_onwards_unless_they_close_a_cycle(spec):
    found = arrange(spec)
    layer_of = found.layer_of()
    assert sorted(itertools.chain(*found.layers)) == sorted(node.name for node in spec.topology.nodes)
    forward = [arrow for arrow in found.arrows if not arrow.backward]
    assert all(layer_of[arrow.source] < layer_of[arrow.target] for arrow in forward)
    for arrow in found.arrows:
        if arrow.backward:  # without the arrow, its target still leads to its source
            reached = {arrow.target}
            for _ in layer_of:
                reached |= {other.target for other in found.arrows if other.source in reached}
            assert arrow.source in reached
    shown = [block for arrow in found.arrows for block in arrow.blocks]
    shown += [block for blocks in found.held.values() for block in blocks]
    assert sorted(shown) == sorted(edge.block for edge in spec.topology.edges if edge.block)


@settings(max_examples=8, deadline=None)
@given(spec=st.one_of(described_topologies(), random_specs()))
def test_any_specification_with_neurons_can_be_drawn(tmp_path_factory, spec):
    folder = tmp_path_factory.mktemp("drawn")
    if spec.topology.nodes:
        assert draw(spec, folder / "any.svg").stat().st_size > 500
        assert draw_summary(spec, arrange(spec)).get_size_inches().min() > 0.4


def test_names_in_short():
    lines = "axes a: 2 hidden  b: 3 hidden\nbn.weight (a + b)\nbn.bias (a + b)\nfc.weight a b\nfc.bias a\nz a"
    spec = WeightSpec.parse(lines)
    assert join_keys(["w[0]", "v", "w[2]"]) == ["w[0,2]", "v"]
    assert join_modules(spec, ["bn.weight[1]", "fc.bias", "bn.bias[1]", "z"]) == ["bn.*[1]", "fc.bias", "z"]
    assert join_modules(spec, ["bn.weight[1]", "bn.bias[0]"]) == ["bn.weight[1]", "bn.bias[0]"]
    assert join_modules(spec, ["fc.weight", "fc.bias"]) == ["fc.*"]


def test_layers_of_a_loop():
    found = arrange(SMALL)
    assert found.layers == (("x",), ("s",), ("q",), ("v",), ("s.2",), ("h3",), ("s.3",), ("y",))
    backward = {(arrow.source, arrow.target) for arrow in found.arrows if arrow.backward}
    assert backward == {("s.3", "s"), ("s.3", "s.3")}


def test_what_nothing_reaches_stands_before_what_it_feeds():
    text = "axes a: 2 hidden  b: 2 hidden  x: 2 input  y: 2 output\nw1 a x\nw2 b a\nw3 y b"
    nodes = "nodes x: x  a: a  b: b  y: y  late: a"
    edges = "edge: x a w1\nedge: a b w2\nedge: b y w3\nedge: late b w2"
    found = arrange(WeightSpec.parse("\n".join([text, nodes, edges])))
    assert found.layer_of()["late"] == found.layer_of()["a"] == 1


def test_connections_agree_on_shared_axes():
    def linked(source, target):
        return connections(SMALL, Arrow(source, target, (), False))

    assert len(linked("x", "s")) == 3 * 4
    assert linked("s", "s.2").tolist() == [[i, i] for i in range(4)]
    assert len(linked("s", "q")) == 4 * 6
    assert linked("q", "v").tolist() == [[i, i] for i in range(6)]
    grouped = WeightSpec.parse("axes g: 2 hidden  o: 3 hidden  i: 2 hidden\nw (g o[g]) i[g]\nv (g i[g]) i[g]")
    blocks = connections(grouped, Arrow("i", "o", ("w",), False))
    assert {(s // 2, t // 3) for s, t in blocks.tolist()} == {(0, 0), (1, 1)} and len(blocks) == 2 * 2 * 3
    assert len(connections(grouped, Arrow("i", "i", ("v",), False))) == 2 * 2 * 2


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12))
def test_spans_in_a_lane_lie_apart(spans):
    chosen = lanes(spans)
    for (i, a), (j, b) in itertools.combinations(enumerate(spans), 2):
        if chosen[i] == chosen[j]:
            assert max(a) < min(b) or max(b) < min(a)
    assert set(chosen) == set(range(len(set(chosen))))


def test_what_cannot_be_drawn_is_explained(tmp_path):
    with pytest.raises(GraphError, match="picture.jpg is no .svg or .png file"):
        draw(SMALL, tmp_path / "picture.jpg")
    with pytest.raises(GraphError, match="no node sets"):
        draw(WeightSpec.parse("axes\nslope _  _=3"), tmp_path / "picture.svg")
    assert not list(tmp_path.iterdir())
