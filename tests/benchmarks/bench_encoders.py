"""Every encoder at its paper's width and depth: networks per CPU-second, memory, share of this core's peak.

    python tests/benchmarks/bench_encoders.py                       # both tables
    python tests/benchmarks/bench_encoders.py --encoders NFT ScaleGMN --works siren --rounds 1
    python tests/benchmarks/bench_encoders.py --peers DIR --out table.md
    pytest tests/benchmarks/bench_encoders.py -m slow

Forward and backward of an encoder and an invariant head of ten outputs, one thread. The reference works are
batches of 64 SIRENs 2-32-32-1, and of 64 CNNs of the Small CNN Zoo (three convolutions of 16 channels, 4,970
parameters). Figures are those of :mod:`side_by_side`: the best of alternating rounds, a process for each.
Ratios are to the sparse reference of the same run, ``GraphMetanetwork.sparse()``: message passing as it is
written with torch_geometric. The share of the peak is what all matrix products of a step would take at the
speed of a product of two 1024 x 1024 matrices, measured in the same process, in proportion to the whole
step.

Peers are compared on the same weights: the package ``nfn``, and with ``--peers DIR`` the authors'
repositories in ``DIR``, as :mod:`peers` says.
"""

import argparse
import functools
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import peers
import pytest
import side_by_side
import torch
from side_by_side import Figures
from torch import Tensor, nn

import wsl
from wsl import encoders
from wsl.models import Siren, SmallCNN
from wsl.nn import GeneratedProbes, InvariantHead
from wsl.spec import WeightSpec
from wsl.testing import random_weights

BATCH, CLASSES, ROUNDS = 64, 10, 2


WORKS = {
    "siren": (lambda: Siren(2, (32, 32), 1), (16, 2)),
    "cnn": (SmallCNN, (4, 1, 32, 32)),
}


class Case(NamedTuple):
    """An encoder at one size; a batch of fewer networks where a step would take too long."""

    encoder: str
    layers: int
    channels: int
    options: Mapping[str, Any] = MappingProxyType({})
    works: tuple[str, ...] = tuple(WORKS)
    batch: int = BATCH

    @property
    def label(self) -> str:
        return f"{self.encoder}-{self.layers}x{self.channels}"


CASES = (
    Case("GraphMetanetwork", 4, 64),
    Case("FastGraphMetanetwork", 1, 64),
    Case("NeuralGraphGNN", 4, 32),  # its paper's
    Case("NeuralGraphTransformer", 4, 64, {"edge_channels": 32, "heads": 8}),  # its paper's
    Case("ScaleGMN", 4, 128),  # its paper's
    Case("ScaleGMNBidirectional", 4, 128),  # its paper's
    Case("DWSNet", 5, 32),  # its paper's
    Case("NFNHNP", 3, 512, {"frequencies": 256}, ("siren",), 16),  # its paper's
    Case("NFNHNP", 3, 32, {"frequencies": 16}),
    Case("NFNHNP", 3, 16, {"frequencies": 0}, ("cnn",)),  # its paper's
    Case("NFNNP", 3, 512, {"frequencies": 256}, ("siren",), 16),  # its paper's
    Case("NFNNP", 3, 32, {"frequencies": 16}),
    Case("NFNNP", 3, 16, {"frequencies": 0}, ("cnn",)),  # its paper's
    Case("NFT", 4, 256, {"frequencies": 128, "heads": 8}, ("siren",), 8),  # its paper's
    Case("NFT", 4, 32),
    Case("UniversalNeuralFunctional", 4, 32),  # its paper's
    Case("FlatMLP", 2, 256),
    Case("StatNet", 2, 256),
    Case("DeepSets", 4, 64),
    Case("SetTransformer", 2, 64),
    Case("Transformer", 4, 64),
    Case("ProbeGen", 5, 256),
)
REFERENCE = "sparse-4x64"
_HIDDEN = {"FlatMLP", "StatNet", "ProbeGen"}  # whose width is that of their MLP


@functools.cache
def reference_work(work: str) -> tuple[nn.Module, Tensor, WeightSpec]:
    """A network, inputs for it, and the specification of its weights."""
    make, shape = WORKS[work]
    module, inputs = make(), torch.rand(shape)
    return module, inputs, wsl.trace(module, inputs)


def build_encoder(case: Case, work: str) -> encoders.Encoder:
    """The encoder of a case."""
    module, inputs, spec = reference_work(work)
    options = dict(case.options)
    if case.encoder == "ProbeGen":
        options["probes"] = GeneratedProbes(module, spec, inputs)
    width = "hidden" if case.encoder in _HIDDEN else "channels"
    family = getattr(encoders, case.encoder)
    encoder: encoders.Encoder = family(spec, layers=case.layers, **{width: case.channels}, **options)
    return encoder


def find_case(label: str) -> Case:
    """The case of a label; the sparse reference is the first one."""
    return next(case for case in CASES if label in (case.label, REFERENCE))


def batch_of(work: str, rows: int = BATCH) -> dict[str, Tensor]:
    """The weights that all sides read."""
    return random_weights(
        reference_work(work)[2], rows, torch.Generator().manual_seed(0), dtype=torch.float32
    )


def measure(work: str, kind: str, label: str) -> Figures:
    """One side: one of our encoders, or a peer's model."""
    if kind == "peer":
        peer = peers.PEERS[label]
        rows = peer.batch
        model, run = peer.build(work, batch_of(work, rows))
    else:
        case = find_case(label)
        rows = case.batch
        encoder = build_encoder(case, work)
        head = InvariantHead(encoder.spec, encoder.channels, CLASSES)
        model = nn.ModuleList([encoder, head])
        features = encoder.sparse() if label == REFERENCE else encoder
        weights = batch_of(work, rows)

        def run(few: int) -> Tensor:
            return head(features({name: tensor[:few] for name, tensor in weights.items()}))

    def step(few: int) -> float:
        model.zero_grad()
        loss = run(few).square().mean()
        loss.backward()
        return loss.item()

    flops = side_by_side.count_flops(step, rows)
    return {
        **side_by_side.measure_step(step, rows),
        "flops": flops,
        "rows": rows,
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
    }


def run_work(
    work: str, cases: Sequence[Case], rounds: int, folder: Path | None
) -> tuple[dict[str, Figures], dict[str, Figures]]:
    """Figures of the reference and all cases, and of the peers that are at hand, by label."""
    own = {label: f"{work} wsl {label}" for label in (REFERENCE, *(case.label for case in cases))}
    rivals = {
        name: f"{work} peer {name}"
        for name, peer in peers.PEERS.items()
        if work in peer.works and peer.ours in own and peers.at_hand(peer, folder)
    }
    paths = {side: peers.python_path(peers.PEERS[name], folder) for name, side in rivals.items()}
    failures: dict[str, str] = {}
    best = side_by_side.run_sides(__file__, [*own.values(), *rivals.values()], rounds, paths, failures)
    for said in failures.values():
        print(said, file=sys.stderr)
    return (
        {label: best[side] for label, side in own.items() if side in best},
        {
            name: best[side]
            for name, side in rivals.items()
            if {side, own[peers.PEERS[name].ours]} <= best.keys()
        },
    )


def speed(figures: Figures) -> float:
    """Networks per CPU-second."""
    return figures["rows"] / figures["seconds"]


def memory(figures: Figures) -> float:
    """MB for each network."""
    return figures["memory"] / figures["rows"]


def own_table(work: str, results: dict[str, Figures]) -> list[str]:
    """The table of our encoders on one work, in lines of Markdown."""
    reference = speed(results[REFERENCE])
    lines = [
        f"| {work}: encoder, layers x channels | parameters | networks / CPU-s | x sparse | MB / network "
        "| of the peak |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for label, figures in results.items():
        share = side_by_side.share_of_peak(figures["flops"], figures["seconds"], figures)
        lines.append(
            f"| {label.replace('-', ' ')} | {figures['parameters']:,.0f} | {_three(speed(figures))} "
            f"| {speed(figures) / reference:.2f} | {_three(memory(figures))} | {share:.0%} |"
        )
    return lines


def peer_table(work: str, results: dict[str, Figures], rivals: dict[str, Figures]) -> list[str]:
    """The table of the peers on one work; none if there are none."""
    if not rivals:
        return []
    lines = [
        f"| {work}: peer | parameters | networks / CPU-s | ours | faster | MB / network | ours |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, figures in rivals.items():
        ours = results[peers.PEERS[name].ours]
        lines.append(
            f"| {name.replace('-', ' ')} | {figures['parameters']:,.0f} | {_three(speed(figures))} "
            f"| {_three(speed(ours))} | {speed(ours) / speed(figures):.2f}x | {_three(memory(figures))} "
            f"| {_three(memory(ours))} |"
        )
    return ["", *lines]


def _three(value: float) -> str:
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:,.{digits}f}"


def report(works: Sequence[str], names: Sequence[str], rounds: int, folder: Path | None) -> str:
    """All tables."""
    lines = []
    for work in works:
        wanted = [case for case in CASES if not names or {case.encoder, case.label} & {*names}]
        cases = [case for case in wanted if work in case.works]
        results, rivals = run_work(work, cases, rounds, folder)
        lines += [*own_table(work, results), *peer_table(work, results, rivals), ""]
    return "\n".join(lines)


@pytest.mark.parametrize("work", WORKS)
def test_dense_equals_sparse(work: str) -> None:
    case = CASES[0]
    encoder, weights = build_encoder(case, work), batch_of(work, 3)
    dense, sparse = encoder(weights), encoder.sparse()(weights)
    for name, nodes in dense.nodes.items():
        torch.testing.assert_close(nodes, sparse.nodes[name], rtol=1e-3, atol=1e-4)
    for name in dense.tensors:
        torch.testing.assert_close(dense.tensors[name], sparse.tensors[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("work", "case"),
    [pytest.param(work, case, id=f"{work}-{case.label}") for case in CASES for work in case.works],
)
def test_rows_are_independent(work: str, case: Case) -> None:
    encoder, weights = build_encoder(case, work), batch_of(work, 3)
    whole = encoder(weights).nodes
    alone = encoder({name: tensor[2:] for name, tensor in weights.items()}).nodes
    for name, nodes in whole.items():
        torch.testing.assert_close(nodes[2:], alone[name], rtol=1e-3, atol=1e-4)


def test_sides_have_one_loss() -> None:
    sides = [f"siren wsl {label}" for label in (REFERENCE, CASES[0].label)]
    best = side_by_side.run_sides(__file__, sides, 1)
    assert best[sides[0]]["loss"] == pytest.approx(best[sides[1]]["loss"], rel=1e-4)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    names = list(dict.fromkeys(name for case in CASES for name in (case.encoder, case.label)))
    parser.add_argument("--encoders", nargs="+", choices=names, metavar="NAME", default=[])
    parser.add_argument("--works", nargs="+", choices=list(WORKS), default=list(WORKS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--peers", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    tables = report(arguments.works, arguments.encoders, arguments.rounds, arguments.peers)
    print(tables)
    if arguments.out:
        arguments.out.write_text(tables)


if __name__ == "__main__":
    if not side_by_side.answer(measure):
        main()
