"""Specifications with topologies, written by hand: what computational graphs have to be able to hold."""

from wsl.spec import WeightSpec

_TEXTS = {
    "residual": """
        axes   h1: 3 hidden   h2: 4 hidden relu   x: 2 input   y: 2 output
        stem.weight   h1 x
        stem.bias     h1
        in.weight     h2 h1
        in.bias       h2
        out.weight    h1 h2
        out.bias      h1
        head.weight   y h1
        nodes  x: x   h1: h1 relu   h2: h2 relu   h1.2: h1 relu   y: y
        edge:  x h1 stem.weight
        edge:  - h1 stem.bias
        edge:  h1 h2 in.weight
        edge:  - h2 in.bias
        edge:  h2 h1.2 out.weight
        edge:  - h1.2 out.bias
        edge:  h1 h1.2
        edge:  h1.2 y head.weight
    """,
    "resnet": """
        axes   c1: 3 hidden   c2: 2 hidden   i1: 4 hidden relu   x: 1 input   y: 2 output
        stem.weight       c1 x _ _   _=3x3
        bn.weight         c1
        bn.bias           c1
        bn.running_mean   c1
        bn.running_var    c1
        conv1.weight      i1 c1 _ _   _=3x3
        conv2.weight      c2 i1 _ _   _=3x3
        bn2.weight        c2
        bn2.bias          c2
        down.weight       c2 c1 _ _   _=1x1
        down_bn.bias      c2
        fc.weight         y c2
        fc.bias           y
        nodes  x: x   c1: c1 relu   i1: i1 relu   c2: c2   down: c2   sum: c2 relu   y: y
        edge:  x c1 stem.weight
        edge:  - c1 bn.weight
        edge:  - c1 bn.bias
        edge:  - c1 bn.running_mean
        edge:  - c1 bn.running_var
        edge:  c1 i1 conv1.weight
        edge:  i1 c2 conv2.weight
        edge:  - c2 bn2.weight
        edge:  - c2 bn2.bias
        edge:  c1 down down.weight
        edge:  - down down_bn.bias
        edge:  c2 sum
        edge:  down sum
        edge:  sum y fc.weight
        edge:  - y fc.bias
    """,
    "attention": """
        axes   c: 3 hidden   h: 2 hidden   d: 2 hidden   e: 3 hidden   x: 2 input   y: 2 output
        embed.weight   c x
        q.weight       (h d[h]) c
        q.bias         (h d[h])
        k.weight       (h d[h]) c
        v.weight       (h e[h]) c
        v.bias         (h e[h])
        out.weight     c (h e[h])
        temperature
        head.weight    y c
        nodes  x: x   c: c   q: (h d)   k: (h d)   p: h softmax   v: (h e)   o: (h e)   c.2: c   y: y
        edge:  x c embed.weight
        edge:  c q q.weight
        edge:  - q q.bias
        edge:  c k k.weight
        edge:  c v v.weight
        edge:  - v v.bias
        edge:  q p
        edge:  k p
        edge:  - p temperature
        edge:  p o
        edge:  v o
        edge:  o c.2 out.weight
        edge:  c c.2
        edge:  c.2 y head.weight
    """,
    "lstm": """
        axes   h: 3 hidden   x: 2 input   y: 1 output
        weight_ih      (h + h + h + h) x
        weight_hh      (h + h + h + h) h
        bias           (h + h + h + h)
        head.weight    y h
        nodes  x: x   h: h   i: h sigmoid   f: h sigmoid   g: h tanh   o: h sigmoid   c: h tanh   y: y
        edge:  x i weight_ih[0]
        edge:  x f weight_ih[1]
        edge:  x g weight_ih[2]
        edge:  x o weight_ih[3]
        edge:  h i weight_hh[0]
        edge:  h f weight_hh[1]
        edge:  h g weight_hh[2]
        edge:  h o weight_hh[3]
        edge:  - i bias[0]
        edge:  - f bias[1]
        edge:  - g bias[2]
        edge:  - o bias[3]
        edge:  i c
        edge:  g c
        edge:  f c
        edge:  c c
        edge:  c h
        edge:  o h
        edge:  h y head.weight
    """,
    "unrolled": """
        axes   h: 3 hidden tanh   x: 2 input   y: 1 output
        ih.weight     h x
        hh.weight     h h
        hh.bias       h
        head.weight   y h
        nodes  x: x   h: h tanh   h.2: h tanh   h.3: h tanh   y: y
        edge:  x h ih.weight
        edge:  x h.2 ih.weight
        edge:  x h.3 ih.weight
        edge:  h h.2 hh.weight
        edge:  h.2 h.3 hh.weight
        edge:  - h hh.bias
        edge:  - h.2 hh.bias
        edge:  - h.3 hh.bias
        edge:  h.3 y head.weight
    """,
    "grouped": """
        axes   g: 2 hidden   i: 3 hidden   o: 2 hidden relu   x: 2 input   y: 2 output
        stem.weight    (g i[g]) x _   _=3
        conv.weight    (g o[g]) i[g] _   _=2
        norm.weight    (g o[g])
        norm.bias      (g o[g])
        head.weight    y (g o[g])
    """,
    "groups in rows": """
        axes   g: 2 hidden   i: 2 hidden   o: 3 hidden   x: 1 input   y: 1 output
        stem.weight    (g i[g]) x
        conv.weight    o[g] g i[g]
        scale          g
        head.weight    y (g o[g])
        nodes  x: x   in: (g i)   out: (g o) relu   y: y
        edge:  x in stem.weight
        edge:  in out conv.weight ends=tbs
        edge:  - out scale
        edge:  out y head.weight
    """,
    "tied": """
        axes   h: 3 hidden relu   x: 4 input
        weight     h x
        bias       h
        out        x
        nodes  x: x   h: h relu   y: x
        edge:  x h weight
        edge:  - h bias
        edge:  h y weight ends=st
        edge:  - y out
    """,
    "transposed": """
        axes   c1: 3 hidden silu   c2: 2 hidden silu   x: 1 input   y: 1 output
        down.weight   c1 x _   _=3
        middle.bias   c1
        up.weight     c1 c2 _   _=2
        out.weight    y (c2 + c1) _   _=1
        nodes  x: x   c1: c1 silu   c2: c2 silu   y: y
        edge:  x c1 down.weight
        edge:  - c1 middle.bias
        edge:  c1 c2 up.weight ends=st
        edge:  c2 y out.weight[0]
        edge:  c1 y out.weight[1]
    """,
    "dense": """
        axes   c0: 2 hidden relu   c1: 3 hidden relu   c2: 2 hidden relu   x: 1 input   y: 2 output
        c0.weight   c0 x _ _   _=3x3
        c1.weight   c1 c0 _ _   _=3x3
        c2.weight   c2 (c0 + c1) _ _   _=3x3
        bn.weight   (c0 + c1 + c2)
        bn.bias     (c0 + c1 + c2)
        fc.weight   y (c0 + c1 + c2)
    """,
    "mixer": """
        axes   t: 3 fixed   u: 2 hidden gelu   c: 4 hidden   k: 3 hidden gelu   x: 2 input   y: 2 output
        patch.weight    c x
        position        t c
        token1.weight   u t
        token1.bias     u
        token2.weight   t u
        channel.weight  k c
        back.weight     c k
        norm.weight     c
        head.weight     y c
        nodes  x: x   s: (t c)   u: (c u) gelu   s.2: (t c)   k: (t k) gelu   s.3: (t c)   c: c   y: y
        edge:  x s patch.weight
        edge:  - s position
        edge:  - s norm.weight
        edge:  s u token1.weight
        edge:  - u token1.bias
        edge:  u s.2 token2.weight
        edge:  s s.2
        edge:  - s.2 norm.weight
        edge:  s.2 k channel.weight
        edge:  k s.3 back.weight
        edge:  s.2 s.3
        edge:  s.3 c
        edge:  c y head.weight
    """,
    "depthwise": """
        axes   c: 3 hidden   e: 2 hidden   x: 1 input   y: 2 output
        stem.weight   c x _   _=3
        deep.weight   c _   _=3
        deep.bias     c
        blur          _ _   _=2x2
        squeeze.weight   e c
        excite.weight    c e
        fc.weight     y c
        nodes  x: x   c: c relu   c.2: c relu   e: e relu   gate: c sigmoid   c.3: c   c.4: c   y: y
        edge:  x c stem.weight
        edge:  c c.2 deep.weight
        edge:  - c.2 deep.bias
        edge:  c.2 e squeeze.weight
        edge:  e gate excite.weight
        edge:  gate c.3
        edge:  c.2 c.3
        edge:  c.3 c.4 blur
        edge:  c.4 y fc.weight
    """,
    "experts": """
        axes   e: 2 hidden   h: 3 hidden   x: 2 input   y: 2 output
        router.weight   e x
        up              e h[e] x
        bias            e h[e]
        down            e y h[e]
        nodes  x: x   gate: e softmax   h: (e h) relu   out: (e y)   y: y
        edge:  x gate router.weight
        edge:  x h up ends=tts
        edge:  - h bias
        edge:  h out down ends=bts
        edge:  gate out
        edge:  out y
    """,
    "overlapping": """
        axes   a: 2 hidden   b: 3 hidden   c: 2 hidden   x: 1 input   y: 1 output
        stem.weight   c x _   _=2
        weight        (a b) c _   _=2
        head.weight   y a
        nodes  x: x   c: c   ab: (a b)   bc: (b c)   a: a   y: y
        edge:  x c stem.weight
        edge:  c ab weight
        edge:  bc a weight ends=tss
        edge:  ab bc
        edge:  a y head.weight
    """,
    "bilinear": """
        axes   a: 3 hidden   b: 2 hidden   x: 2 input   y: 2 output
        left.weight    a x
        right.weight   b x
        weight         y a b
        bias           y
    """,
}
_HYPEREDGES = {
    "bias and gain": """
        axes   h: 3 hidden   x: 2 input   y: 1 output
        fc.weight     h x
        slope         h _   _=2
        head.weight   y h
        nodes  x: x   h: h   h.2: h   y: y
        edge:  x h fc.weight
        edge:  - h slope
        edge:  h h.2 slope
        edge:  h.2 y head.weight
    """,
    "unused": """
        axes   h: 3 hidden   k: 2 hidden   x: 2 input   y: 1 output
        fc.weight     h x
        fc.unused     k h _   _=2
        head.weight   y h
        scale
        nodes  x: x   h: h   y: y
        edge:  x h fc.weight
        edge:  h y head.weight
    """,
}
TOPOLOGIES = {name: WeightSpec.parse(text) for name, text in _TEXTS.items()}
"""Architectures whose edges all are pairs of nodes."""
WITH_HYPEREDGES = {name: WeightSpec.parse(text) for name, text in _HYPEREDGES.items()}
"""Those with a block that lies at nodes and between them, or nowhere."""
