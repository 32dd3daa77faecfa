"""The specification: text, JSON, pickle, equality, blocks and error messages."""

import inspect
import json
import math
import pickle

import pytest
import torch
from described_modules import MODULES
from hypothesis import given, settings
from hypothesis import strategies as st

from wsl.spec import Axis, Block, Exponent, Note, Scaling, SpecError, TensorSpec, WeightSpec
from wsl.testing import random_specs, random_weights

SMALL = (
    "axes  h1: 5 hidden relu positive  x: 2 input  y: 3 output\nfc1.weight h1 x\nfc1.bias h1\n"
    "fc2.weight y h1\nscaling:  h1 positive fc1.weight+1 fc1.bias+1 fc2.weight-1"
)


@settings(max_examples=100)
@given(random_specs())
def test_round_trips(spec):
    for back in (
        WeightSpec.parse(str(spec)),
        WeightSpec.from_json(spec.to_json()),
        pickle.loads(pickle.dumps(spec)),
    ):
        assert back == spec
        assert hash(back) == hash(spec)
        assert str(back) == str(spec)
        assert list(back.axes) == list(spec.axes)
        assert list(back.tensors) == list(spec.tensors)
        assert back.blocks == spec.blocks
    assert eval(repr(spec), {"WeightSpec": WeightSpec}) == spec


@settings(max_examples=100)
@given(random_specs(), st.integers(0, 2**31))
def test_split_and_join_are_inverse(spec, seed):
    weights = random_weights(spec, 2, torch.Generator().manual_seed(seed))
    assert spec.check_weights(weights) == 2
    blocks = spec.split(weights)
    assert {key: tuple(block.shape[1:]) for key, block in blocks.items()} == {
        ref.key: ref.block.view for ref in spec.blocks
    }
    joined = spec.join(blocks)
    assert list(joined) == list(weights)
    assert all(torch.equal(joined[name], weights[name]) for name in weights)
    again = spec.split(joined)
    assert all(torch.equal(again[key], blocks[key]) for key in blocks)
    assert sum(block[0].numel() for block in blocks.values()) == spec.parameter_count


@settings(max_examples=100)
@given(random_specs())
def test_blocks_agree_with_axes(spec):
    for ref in spec.blocks:
        for size, axis in zip(ref.block.view, ref.block.axes, strict=True):
            assert axis == "_" or spec.axes[axis].size == size
    assert spec.hidden_axes == tuple(axis for axis in spec.axes.values() if axis.kind == "hidden")


def test_blocks_of_products_and_sums():
    spec = WeightSpec.parse("axes a: 2 hidden  b: 3 hidden  y: 4 output\nw y (a 5 + b)\nb (a + a)")
    assert spec.tensors["w"].shape == (4, 13)
    assert [ref.key for ref in spec.blocks] == ["w[0]", "w[1]", "b[0]", "b[1]"]
    assert spec.blocks[0].block == Block(((0, 4), (0, 10)), (4, 2, 5), ("y", "a", "_"))
    assert spec.blocks[1].block == Block(((0, 4), (10, 13)), (4, 3), ("y", "b"))
    weights = {"w": torch.arange(52).view(1, 4, 13), "b": torch.arange(4).view(1, 4)}
    assert torch.equal(spec.split(weights)["w[1]"], weights["w"][:, :, 10:])
    assert torch.equal(spec.split(weights)["b[1]"], torch.tensor([[2, 3]]))


def test_blocks_of_sums_within_products():
    """Queries, keys and values within each head: the blocks alternate."""
    spec = WeightSpec.parse(
        "axes h: 2 hidden  a: 3 hidden  b: 1 hidden  f: 2 fixed  c: 2 hidden\n"
        "w  (h (f + a[h] + a[h] + b[h])) c\ndeep  (c + 2 (b[h] h + f (h + c 2)) 2)"
    )
    assert spec.tensors["w"].shape == (18, 2)
    assert spec.tensors["w"].dims == (((("h", (("f",), ("a",), ("a",), ("b",))),)), (("c",),))
    assert spec.tensors["w"].axes == ("h", "f", "a", "b", "c")
    assert [ref.key for ref in spec.blocks][:4] == ["w[0]", "w[1]", "w[2]", "w[3]"]
    assert spec.block("w[1]").block == Block(((2, 14), (0, 2)), (2, 3, 2), ("h", "a", "c"), (9, 1, 1))
    assert spec.block("deep[2]").block == Block(
        ((6, 50),), (2, 2, 2, 2), ("_", "f", "h", "_"), (28, 12, 2, 1)
    )
    weights = {"w": torch.arange(36).view(1, 18, 2), "deep": torch.arange(58).view(1, 58)}
    blocks = spec.split(weights)
    assert torch.equal(blocks["w[1]"], weights["w"].view(1, 2, 9, 2)[:, :, 2:5])
    outer = weights["deep"][:, 2:].view(1, 2, 14, 2)
    inner = outer[:, :, 2:].view(1, 2, 2, 6, 2)
    assert torch.equal(blocks["deep[1]"], outer[:, :, :2].view(1, 2, 1, 2, 2))
    assert torch.equal(blocks["deep[2]"], inner[:, :, :, :2])
    assert torch.equal(blocks["deep[3]"], inner[:, :, :, 2:].view(1, 2, 2, 2, 2, 2))
    assert all(block._base is not None for block in blocks.values())  # views


@settings(max_examples=100)
@given(random_specs())
def test_only_blocks_that_alternate_have_strides(spec):
    for name, tensor in spec.tensors.items():
        for block in tensor.blocks:
            filled = math.prod(stop - start for start, stop in block.slice) == math.prod(block.view)
            assert len(block.strides) == (0 if filled else len(block.view)), name
    assert len({(ref.tensor, ref.block) for ref in spec.blocks}) == len(spec.blocks)


@pytest.mark.parametrize("seed", range(3))
def test_split_and_join_are_differentiable(seed):
    spec = WeightSpec.parse("axes h: 2 hidden  a: 3 hidden  c: 2 hidden\nw  (h (a[h] + 1)) (c + 2 (c + 1))")
    weight = torch.randn(2, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    assert torch.autograd.gradcheck(
        lambda w: (*spec.split({"w": w}).values(), spec.join(spec.split({"w": w}))["w"]),
        weight.requires_grad_(),
    )


def test_the_text_is_what_the_documentation_shows():
    assert str(MODULES["cnn"].spec).splitlines() == [
        "axes    c1: 4 hidden relu positive   c2: 3 hidden relu positive   x: 2 input   y: 5 output",
        "conv1.weight      c1 x _ _   _=3x3",
        "conv1.bias        c1",
        "bn.weight         c1",
        "bn.bias           c1",
        "bn.running_mean   c1",
        "bn.running_var    c1",
        "conv2.weight      c2 c1 _ _   _=3x3",
        "fc.weight         y (c2 4 4)",
        "fc.bias           y",
        "scaling:  c1 positive conv1.weight+1 conv1.bias+1 bn.running_mean+1 bn.weight-1",
        "scaling:  c1 positive bn.weight+1 bn.bias+1 conv2.weight-1",
        "scaling:  c2 positive conv2.weight+1 fc.weight-1",
    ]


def test_comments_blank_lines_and_padding_are_ignored():
    lines = ["# a network", "", *(f"   {line}   # said here" for line in SMALL.splitlines()), "  # end"]
    assert WeightSpec.parse("\n".join(lines)) == WeightSpec.parse(SMALL)


def test_the_documentation_of_the_text_form_is_in_it():
    example = inspect.getdoc(WeightSpec.parse).partition("::\n")[2].partition("Activations,")[0]
    spec = WeightSpec.parse(example)
    assert spec.axes["h2"].family == ("h1",) and len(spec.edges) == 7 and spec.notes
    assert WeightSpec.parse(str(spec)) == spec


def test_lines_are_continued_wherever_they_break():
    text = SMALL.replace(" fc1.bias+1", " \\  \n  fc1.bias+1 \\ # said here\n") + " \\"
    assert WeightSpec.parse(text) == WeightSpec.parse(SMALL)
    with pytest.raises(SpecError, match="in line 5: scaling:  h1 positive fc1.weight.1 fc1.bias.1 fc2"):
        WeightSpec.parse(text.replace("weight-1", "weight"))


def test_axes_may_be_declared_wherever_they_are_not_yet_used():
    first, *rest = SMALL.splitlines()
    assert WeightSpec.parse("\n".join([first.split("y:")[0], *rest[:2], "axes y: 3 output", *rest[2:]])) == (
        WeightSpec.parse(SMALL)
    )


def test_differences_are_seen():
    spec = WeightSpec.parse(SMALL)
    texts = [
        SMALL.replace("fc2.weight y h1", "fc2.weight y _ _=5").replace(" fc2.weight-1", ""),
        SMALL.partition("\nscaling")[0].replace("relu positive", "relu"),
        SMALL.replace("positive", "sign"),
        SMALL.replace("h1: 5", "h1: 6"),
        SMALL.replace("x: 2 input", "x: 2 fixed"),
        SMALL + "\nnote: x embedding in layer",
        SMALL + "\nscaling: h1 positive fc1.weight+1",
    ]
    assert len({spec, *map(WeightSpec.parse, texts)}) == 8


def test_a_specification_cannot_be_changed():
    spec = WeightSpec.parse(SMALL)
    with pytest.raises(AttributeError):
        spec.notes = ()
    with pytest.raises(TypeError):
        spec.axes["z"] = Axis("z", 1, "hidden")


def test_specifications_can_be_built_from_values():
    axes = [Axis("h1", 5, "hidden", "relu", "positive"), Axis("x", 2, "input"), Axis("y", 3, "output")]
    sizes = {axis.name: axis.size for axis in axes}
    tensors = {
        name: TensorSpec.from_dims(tuple(((axis,),) for axis in names), sizes)
        for name, names in {"fc1.weight": ("h1", "x"), "fc1.bias": ("h1",), "fc2.weight": ("y", "h1")}.items()
    }
    scaling = Scaling("h1", "positive", (("fc1.weight", 1), ("fc1.bias", 1), ("fc2.weight", -1)))
    assert WeightSpec(axes, tensors, [scaling]) == WeightSpec.parse(SMALL)
    scaling = Scaling("h1", "positive", (("fc1.weight", 1), ("fc2.weight", -2)))
    both = WeightSpec({axis.name: axis for axis in axes}, tensors, [scaling], [Note("x", "why not")])
    assert WeightSpec.parse(str(both)) == both
    assert both.scalings[0].exponents[1] == Exponent("fc2.weight", -2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("axes h1: 5 hidden\nw h2", "axis 'h2' is used by a tensor but not declared; declared: h1"),
        ("axes h1: 5 hidden  h2: 4 hidden\nw h1", "axes h2 occur in no tensor"),
        ("axes h1: 5 hidden  h1: 5 input\nw h1", "an axis is declared twice"),
        ("axes h1: 0 hidden\nw h1", "axis h1 has size 0"),
        ("axes h1: five hidden\nw h1", "axis h1 is declared as 'five hidden'; expected 'size kind"),
        ("axes h1: 5 secret\nw h1", "axis h1 has kind 'secret', which is none of hidden, input"),
        ("axes 1h: 5 hidden\nw 1h", "'1h' is no axis name"),
        ("", "the text declares no axes: ''"),
        ("spec.txt", "the text declares no axes: 'spec.txt'.\n  A specification begins with a line such as"),
        ("axes h1: 5 hidden\n\nw h1, h1  # square", "'h1,' is no axis; .*\n  in line 3: w h1, h1$"),
        ("axes h1: 5 hidden\nw: h1", "a line begins with 'axes', .*; not with 'w:'"),
        ("axes h1:5 hidden\nw h1", "'h1:5' is no axis"),
        ("axes h1: 5 hidden\nw (h1 + h1)\nw[1] h1", r"w\[1\] names both a tensor and a block of ano"),
        ("axes h1: 5 hidden relu sign\nw h1", "axis h1 is declared sign, but its scalings are none"),
        ("axes h1: 5 hidden sign\nw h1\nscaling: h1 positive w+1", "declared sign, but its .* positive"),
        ("axes h1: 5 hidden\nw h1 _", "the size of a '_' is missing; add it at the end"),
        ("axes h1: 5 hidden\nw h1 _=3", "size 3 stands for no '_'"),
        ("axes h1: 5 hidden\nw (h1 4", "a bracket is never closed"),
        ("axes h1: 5 hidden\nw h1 )", r"unexpected '\)'"),
        ("axes h1: 5 hidden\nw (h1 (4 + 1)", "a bracket is never closed"),
        ("axes h1: 5 hidden\nw (h1 (4 +))", "every term of a sum needs at least one factor"),
        ("axes h1: 5 hidden\nw (h1 (4))", "is no sum within a product: it has 1 terms"),
        ("axes h1: 5 hidden\nw ((h1 + 4))", "and stands among 1 factors"),
        ("axes h1: 5 hidden\nw (h1 + )", "every term of a sum needs at least one factor"),
        ("axes h1: 5 hidden\nw (h1 0)", "a dimension of size 0 cannot be described"),
        ("axes h1: 5 hidden\nw h1\nw h1", "tensor w is described twice"),
        ("axes h1: 5 hidden\nw h1\nnote: h1", "expected 'axis reason' after 'note:'"),
        ("axes h1: 5 hidden\nw h1\nnote: h2 sort", "notes name axes that are not declared: h2"),
        ("axes h1: 5 hidden\nw h1\nscaling: h1 sign w+1", "not declared as a hidden axis with a scaling"),
        ("axes h1: 5 hidden tanh sign\nw h1\nscaling: h1 sign v+1", "names block v, which does not carry"),
        ("axes h1: 5 hidden tanh sign\nw h1\nscaling: h1 sign w", "expected a block and its power"),
        (
            "axes h1: 5 hidden tanh sign\nw h1\nscaling: h1 odd w+1",
            r"expected 'axis linear\|positive\|sign block\+1",
        ),
    ],
)
def test_malformed_text_is_explained(text, message):
    with pytest.raises(SpecError, match=message):
        WeightSpec.parse(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(version=99), "expected wsl.WeightSpec version 2, got wsl.WeightSpec 99"),
        (lambda r: r.pop("axes"), "no specification in JSON"),
        (
            lambda r: r["tensors"]["fc1.bias"].update(shape=[4]),
            r"fc1.bias is stored as \[4\], but its axes make",
        ),
        (lambda r: r["axes"][0].update(colour="red"), "no specification in JSON"),
        (lambda r: r.update(axes=[3]), "no specification in JSON"),
        (lambda r: r.update(tensors=[]), "no specification in JSON"),
        (lambda r: r["axes"][0].update(size="5"), "no specification in JSON"),
        (lambda r: r.update(scalings=[{"axis": "h1", "kind": "sign", "exponents": [["fc1.bias"]]}]), "JSON"),
        (
            lambda r: (
                r["axes"][0].update(scaling="sign")
                or r.update(scalings=[{"axis": "h1", "kind": "sign", "exponents": [["fc1.bias", 1.5]]}])
            ),
            r"power 1.5 for fc1.bias",
        ),
    ],
)
def test_malformed_json_is_explained(change, message):
    record = json.loads(WeightSpec.parse(SMALL).to_json())
    change(record)
    with pytest.raises(SpecError, match=message):
        WeightSpec.from_json(json.dumps(record))


@pytest.mark.parametrize("text", ["", "[]", "7", "null", '{"format": 1}'])
def test_other_json_is_refused(text):
    with pytest.raises(SpecError):
        WeightSpec.from_json(text)


def test_weights_that_do_not_fit_are_explained():
    spec = WeightSpec.parse(
        "axes  c1: 5 hidden  h1: 2 hidden  x: 1 input\nc.weight c1 x\nfc1.weight h1 (c1 8 8)"
    )
    good = random_weights(spec, 3)
    with pytest.raises(SpecError) as caught:
        spec.check_weights({**good, "fc1.weight": torch.zeros(3, 2, 384)})
    assert str(caught.value).splitlines() == [
        "fc1.weight has size 384 on dim 1, but the spec says (c1 8 8) with c1=5, which is 320.",
        "  spec: fc1.weight   h1 (c1 8 8)      given: (2, 384)",
        "  The weights come from another architecture, or trace() ran on another input size.",
    ]
    cases = [
        ({"c.weight": good["c.weight"]}, "missing fc1.weight; extra none"),
        ({**good, "a": good["c.weight"]}, "missing none; extra a"),
        ({**good, "c.weight": good["c.weight"][:2]}, "different numbers of networks"),
        ({**good, "c.weight": good["c.weight"][0]}, r"shape \(5, 1\); expected \(B, 5, 1\)"),
    ]
    for weights, message in cases:
        with pytest.raises(SpecError, match=message):
            spec.check_weights(weights)
    assert spec.check_weights({name: tensor[0] for name, tensor in good.items()}, batched=False) == 1


def test_what_the_text_cannot_hold_is_refused():
    sizes = {"h1": 2}
    axis, tensor = Axis("h1", 2, "hidden", "tanh", "sign"), TensorSpec.from_dims((((("h1",)),),), sizes)
    for name in ("", "a b", "scaling:", "#w"):
        with pytest.raises(SpecError, match="cannot be written"):
            WeightSpec([axis], {name: tensor})
    assert Note("h1", " two\nlines ") == Note("h1", "two lines")
    for note in (Note("h1", ""), Note("h1", "why \\"), Note("h1", "sort #3"), Note("h1", "# sort")):
        with pytest.raises(SpecError, match="note"):
            WeightSpec([axis], {"w": tensor}, notes=[note])
    with pytest.raises(SpecError, match="scal"):
        WeightSpec([axis], {"w": tensor}, [Scaling("h1", "sign", ())])


@pytest.mark.parametrize("name", ["axes", "note", "scaling", "a#b", "layers.0+1", "w[0]", "_=3", "(w)", "5"])
def test_unusual_tensor_names_survive(name):
    axis = Axis("h1", 2, "hidden", "tanh", "sign")
    tensor = TensorSpec.from_dims((((("h1",)),), ((3,),)), {"h1": 2})
    spec = WeightSpec([axis], {name: tensor}, [Scaling("h1", "sign", ((name, -1),))])
    assert WeightSpec.parse(str(spec)) == spec
    assert WeightSpec.from_json(spec.to_json()) == spec


def test_order_tells_specifications_apart() -> None:
    """Statistics, heads and flat vectors are numbered in the order of tensors and axes."""
    spec = WeightSpec.parse("axes  x: 2 input   h: 3 hidden   y: 2 output\na  h x\nb  y h")
    tensors = WeightSpec(spec.axes, dict([*spec.tensors.items()][::-1]))
    axes = WeightSpec([*spec.axes.values()][::-1], spec.tensors)
    assert len({spec, tensors, axes}) == 3
    assert spec == WeightSpec(spec.axes, spec.tensors) == WeightSpec.from_json(spec.to_json())
    assert spec != str(spec)
