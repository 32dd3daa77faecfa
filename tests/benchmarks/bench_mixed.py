"""Batches of several architectures: CPU time an edge, dense by group, in one sparse graph, in usual PyG code.

    pytest tests/benchmarks/bench_mixed.py -m slow -s
    python tests/benchmarks/bench_mixed.py            # the table alone

Batches of 64 SIRENs of about 2-32-32-1, all of one architecture, of 4, 8 or 14, or all different, with a
graph metanetwork of 64 channels and 4 layers and a pooled head, forward + backward, one thread, the same
parameters. ``chosen`` is what :class:`wsl.encoders.MixedEncoder` does by itself.
"""

from collections.abc import Callable

import torch
from side_by_side import Figures, answer, measure_step, run_sides

from wsl.encoders import GraphMetanetwork, MixedEncoder, MixedFeatures, MixedWeights
from wsl.encoders._mixed_sparse import SparseForm
from wsl.nn import PooledHead
from wsl.spec import WeightSpec
from wsl.testing import random_weights

FORMS = ("dense", "sparse", "chosen", "PyG")
ARCHITECTURES = (1, 4, 8, 14, 64)
ROUNDS = 2
BATCH = 64
CHANNELS = 64


def spec(first: int, second: int) -> WeightSpec:
    """A SIREN of these widths."""
    return WeightSpec.parse(
        f"axes h1: {first} hidden sin  h2: {second} hidden sin  x: 2 input  y: 1 output\n"
        "layers.0.weight h1 x\nlayers.0.bias h1\nlayers.1.weight h2 h1\nlayers.1.bias h2\n"
        "layers.2.weight y h2\nlayers.2.bias y"
    )


def networks(count: int, rows: int) -> MixedWeights:
    """``rows`` networks of ``count`` architectures, in turn."""
    widths = [(32, 32)] if count == 1 else [(28 + i // 8, 28 + i % 8 + i // 8) for i in range(count)]
    groups = []
    for i, own in enumerate(map(spec, *zip(*widths, strict=True))):
        generator = torch.Generator().manual_seed(i)
        members = len(range(i, rows, count))
        groups.append((own, random_weights(own, members, generator, torch.float32)))
    return [group for group in groups if len(group[1]["layers.0.bias"])]


def edges(groups: MixedWeights) -> int:
    """Number of weights on edges of all networks."""
    return sum(w.numel() for _, own in groups for name, w in own.items() if name.endswith("weight"))


def measure(form: str, count: str) -> Figures:
    """What a step of one form takes, and its number of edges."""
    encoder = MixedEncoder(GraphMetanetwork(spec(32, 32), channels=CHANNELS, layers=4))
    head = PooledHead(CHANNELS, 10)
    if form == "dense":
        encoder.dense_from = 0
    run: Callable[[MixedWeights], MixedFeatures] = encoder
    if form in ("sparse", "PyG"):
        lists = SparseForm(encoder.encoder) if form == "sparse" else encoder.encoder.sparse()

        def run(groups: MixedWeights) -> MixedFeatures:
            twins = [(encoder.twin(own), weights) for own, weights in groups]
            return [(twin.spec, own) for (twin, _), own in zip(twins, lists.mixed(twins), strict=True)]

    batches = {rows: networks(int(count), rows) for rows in (2, BATCH)}

    def step(rows: int) -> float:
        encoder.zero_grad()
        head.zero_grad()
        loss = head(run(batches[rows])).square().mean()
        loss.backward()
        return loss.item()

    return {**measure_step(step, BATCH), "edges": edges(batches[BATCH])}


def report(best: dict[str, Figures]) -> str:
    """The table."""
    lines = [f"{'':30}" + "".join(f"{form:>10}" for form in FORMS) + f"{'PyG / chosen':>14}"]
    for count in ARCHITECTURES:
        own = {form: best[f"{form} {count}"] for form in FORMS}
        for unit, figure in (
            ("us an edge", lambda found: 1e6 * found["seconds"] / found["edges"]),
            ("MB", lambda found: found["memory"]),
        ):
            shown = "".join(f"{figure(found):10.2f}" for found in own.values())
            ratio = figure(own["PyG"]) / figure(own["chosen"])
            lines.append(f"{count:3} architectures, {unit:12}" + shown + f"{ratio:14.2f}")
    return "\n".join(lines)


def test_all_forms_are_equal() -> None:
    best = run_sides(__file__, [f"{form} {count}" for count in ARCHITECTURES for form in FORMS], ROUNDS)
    print("\n" + report(best))
    for count in ARCHITECTURES:
        losses = [best[f"{form} {count}"]["loss"] for form in FORMS]
        assert max(losses) - min(losses) < 1e-5 * max(losses)


if __name__ == "__main__" and not answer(measure):
    print(report(run_sides(__file__, [f"{f} {n}" for n in ARCHITECTURES for f in FORMS], ROUNDS)))
