"""Random specifications with families of axes: over heads, groups, experts."""

from wsl.testing._draft import Draft


def attention(draft: Draft) -> None:
    """Heads with inner axes of their own; drawn: grouped queries, linear or positive scalings of them."""
    stream = draft.axis("h1")
    draft.layer("embed", stream, draft.axis("x", "input"))
    draft.tensor("norm.weight", stream)
    heads = draft.axis("b1")
    queries = f"{heads} {draft.family('a1', heads)}" if draft.flag() else heads
    kinds = ("linear", "positive") if draft.flag() else ("positive", "linear")
    keys, values = (
        draft.family(name, heads, words=f"hidden {k}") for name, k in zip("de", kinds, strict=True)
    )
    biased = draft.flag()
    draft.layer("q", f"({queries} {keys})", stream, bias=biased)
    draft.layer("k", f"({heads} {keys})", stream, bias=False)
    draft.layer("v", f"({heads} {values})", stream, bias=biased)
    draft.layer("out", stream, f"({queries} {values})", bias=False)
    draft.layer("head", draft.axis("y", "output"), stream)
    q, v = (f"{part}.weight+1" + (f" {part}.bias+1" if biased else "") for part in "qv")
    draft.remark(f"scaling: d {kinds[0]} {q} k.weight-1")
    draft.remark(f"scaling: e {kinds[1]} {v} out.weight-1")


def packed(draft: Draft) -> None:
    """Queries, keys and values in one tensor: sums of products, with one inner axis or one for each head."""
    stream, heads = draft.axis("h1"), draft.axis("a1")
    inner = draft.family("d1", heads) if draft.flag() else draft.axis("d1")
    draft.tensor("position", stream, kernel=[draft.integer(1, 4)])
    draft.layer("embed", stream, draft.axis("x", "input"))
    values = f"{heads} {inner}" if draft.flag() else f"{heads} {draft.integer(1, 3)}"
    draft.layer("qkv", f"({heads} {inner} + {heads} {inner} + {values})", stream)
    draft.layer("out", stream, f"({values})")
    draft.tensor("temperature")
    draft.layer("head", draft.axis("y", "output"), stream)


def interleaved(draft: Draft) -> None:
    """Queries, keys and values within each head, part of their inner dimensions fixed; a sum in a sum."""
    stream, heads, fixed = draft.axis("h1"), draft.axis("a1"), draft.axis("f1", "fixed")
    d, e = draft.family("d1", heads, words="hidden linear"), draft.family("e1", heads)
    draft.layer("embed", stream, draft.axis("x", "input"))
    draft.layer(
        "qkv", f"({heads} ({fixed} + {d} + {fixed} + {d} + {e} {draft.integer(1, 2)}))", stream, bias=True
    )
    draft.tensor("twice", f"({stream} + {heads} ({d} ({fixed} + {e}) + 2) 2)", stream)
    draft.tensor("both", f"({heads} ({d} + 1))", f"(2 ({stream} + {fixed}))")
    draft.layer("head", draft.axis("y", "output"), stream)
    parts = [f"qkv.{part}[{i}]{power}" for i, power in ((1, "+1"), (3, "-1")) for part in ("weight", "bias")]
    draft.remark(f"scaling: d1 linear {' '.join(parts)}")


def groups(draft: Draft) -> None:
    """Grouped convolution and group normalisation: channels are permuted within each group."""
    over = draft.axis("g")
    i, o = draft.family("i", over), draft.family("o", over, words="hidden relu positive")
    draft.layer("stem", f"({over} {i})", draft.axis("x", "input"))
    for part in ("weight", "bias"):
        draft.tensor(f"norm.{part}", f"({over} {i})")
    draft.layer("grouped", f"({over} {o})", i, kernel=draft.kernel(draft.integer(1, 2)), bias=False)
    draft.tensor("depthwise.weight", f"({over} {o})", kernel=[1, *draft.kernel(1)])
    draft.layer("head", draft.axis("y", "output"), f"({over} {o})")
    draft.remark("scaling: o positive grouped.weight+1 head.weight-1")


def experts(draft: Draft) -> None:
    """Nested families, one over a fixed axis too, in blocks that carry their axes in several orders."""
    r = draft.family("r1", "b1", "a1", words="hidden tanh sign")  # declared before what it is over
    fixed, expert = draft.axis("f1", "fixed"), draft.axis("b1")
    a = draft.family("a1", expert, words="hidden relu positive")
    d = draft.family("d1", fixed, expert, words="hidden relu positive")
    x, y = draft.axis("x", "input"), draft.axis("y", "output")
    draft.tensor("first", expert, a, r, x)
    draft.tensor("bias", r, f"({expert} {a})")
    draft.tensor("second", f"({a} {r} {expert})", d, fixed)
    draft.tensor("third", d, y, expert, fixed)
    draft.tensor("gate", expert, x)
    draft.remark("scaling: a1 positive first+1 bias+1 second-1")
    draft.remark("scaling: r1 sign first+1 bias+1 second-1")
    draft.remark("scaling: d1 positive second+1 third-1")
