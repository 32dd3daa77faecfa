"""Attention as one operator, where a module insists on it; otherwise a trace has it run as separate ones.

Dims: heads, and the inner dims of queries and keys and of values, stay free. Mixing: the places of keys,
which softmax runs along. Homogeneity: linear in the values; queries and keys meet in products that may not
be scaled.
"""

from wsl.trace._facts import Operand, Value, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule, Unsupported


def _attention(trace: Recorder, call: Call) -> None:
    """Queries ``(B, H, L, E)``, keys ``(B, H, S, E)``, values ``(B, H, S, V)`` to ``(B, H, L, V)``."""
    query, key, value = (trace.value(call[name]) for name in ("query", "key", "value"))
    if call["query"].shape[1] != call["key"].shape[1] or call["dropout_p"]:
        raise Unsupported
    batch, heads = (trace.unify(trace.unify(query.dims[i], key.dims[i]), value.dims[i]) for i in (0, 1))
    trace.unify(query.dims[3], key.dims[3])
    places = trace.unify(key.dims[2], value.dims[2])
    if call["is_causal"]:
        trace.fix(query.dims[2])
        trace.fix(places)
    scores = Value((batch, heads, query.dims[2], places))
    trace.facts.multiply([Operand(query, tuple("bhle")), Operand(key, tuple("bhse"))], _scores(scores))
    if call["attn_mask"] is not None:
        mask, masked = trace.value(call["attn_mask"]), Value(scores.dims)
        trace.broadcast([scores, mask])
        trace.facts.add([aligned(scores), aligned(mask)], aligned(masked))
        scores = masked
    shares = Value(scores.dims)
    trace.facts.apply(_scores(scores, None), _scores(shares, None), name="softmax")
    out, *sums = call.outs
    result = trace.assign(out, (batch, heads, query.dims[2], value.dims[3]))
    trace.facts.multiply([_scores(shares), Operand(value, tuple("bhsv"))], Operand(result, tuple("bhlv")))
    for tensor in sums:
        total = trace.assign(tensor, (batch, heads, query.dims[2]))
        trace.facts.apply(_scores(scores), Operand(total, tuple("bhl")))


def _scores(value: Value, places: str | None = "s") -> Operand:
    return Operand(value, ("b", "h", "l", places))


RULES: dict[str, Rule] = {"_scaled_dot_product_flash_attention_for_cpu": _attention}
