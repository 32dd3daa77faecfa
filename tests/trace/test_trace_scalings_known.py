"""The scalings of every architecture in the tables are all that it has, or it is said what is more."""

from fnmatch import fnmatchcase

import pytest
import torch
from architectures import KNOWN
from scaling_oracle import Measured, claimed, holds, null_space, sign_patterns, spanned

from wsl import trace

MORE = {
    "vector_neurons": "directions are normalised, but for a millionth",
}


DEEP = (
    "alexnet", "attention_block", "attention_written_out", "autoencoder*", "dense_block", "densenet", "gcn",
    "gin", "gru_*", "inverted_residual", "*_language_model", "llama", "lstm_*", "multihead_attention",
    "multihead_attention_weights", "resnet*", "separable", "transformer_*", "unet*", "vision_transformer",
)  # fmt: skip


def _marked(name: str) -> object:
    deep = any(fnmatchcase(name, pattern) for pattern in DEEP)
    return pytest.param(name, marks=pytest.mark.slow) if deep else name


@pytest.mark.parametrize("name", [_marked(name) for name in KNOWN])
def test_the_scalings_are_all_that_the_function_has(name):
    torch.manual_seed(0)
    row = KNOWN[name]
    module, inputs = row.build(), row.inputs()
    subject = Measured(module, trace(module, inputs, output=row.output), inputs, row.output)
    assert all(holds(subject, scaling) for scaling in subject.spec.scalings)
    more = [
        axis.name
        for axis in subject.spec.hidden_axes
        if not _complete(subject, axis.name, row.dull) or not _all_signs(subject, axis.name)
    ]
    assert bool(more) == (name in MORE), more


def _complete(subject: Measured, axis: str, dull: tuple[str, ...]) -> bool:
    """Whether the positive scalings, and the scaling of blocks that do not matter, span the null space."""
    places = subject.places(axis)
    found = claimed(subject, axis, "positive")
    solutions, without_effect = null_space(subject, axis, len(found))
    assert _rank(found) == len(found)
    assert _rank(torch.cat([found, solutions])) == len(solutions)
    units = torch.eye(len(places), dtype=torch.float64)
    extra = [unit for unit, place in zip(units, places, strict=True) if place in without_effect]
    for place in without_effect:
        unit = units[places.index(place)][None]
        if _rank(torch.cat([found, unit])) > len(found):
            text = f"{place.key} along {axis}"
            known = any(fnmatchcase(text, pattern.replace("[", "[[]")) for pattern in dull)
            if not known:
                return False
    return _rank(torch.cat([found, *(unit[None] for unit in extra)])) == len(solutions)


def _all_signs(subject: Measured, axis: str) -> bool:
    """Whether the sign flips, and those of blocks that do not matter, are all; tried where they are few."""
    places = subject.places(axis)
    if len(places) > 7:
        return True
    tried = sign_patterns(subject, axis)
    found = claimed(subject, axis, "sign")
    assert spanned(found) <= tried
    units = torch.eye(len(places), dtype=torch.float64)
    free = [unit[None] for unit in units if tuple(map(int, unit)) in tried]
    return spanned(torch.cat([found, *free])) == tried


def _rank(rows: torch.Tensor) -> int:
    return int(torch.linalg.matrix_rank(rows, atol=1e-3)) if len(rows) else 0
