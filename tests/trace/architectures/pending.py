"""Rows that the tracer does not find yet, with the reason; empty when it finds all."""

from collections.abc import Iterable

import pytest

_STACK = "stacked slices are not followed"
_MKLDNN = "fused recurrent operators are not taken apart"
_INDEX = "no rule for lookups by an index"
PENDING: dict[str, str] = {
    "spectral_convolution": "no rule for Fourier transforms",
    "multihead_attention": _STACK,
    "multihead_attention_weights": _STACK,
    "multihead_attention_unbiased": _STACK,
    "transformer_encoder": _STACK,
    "transformer_encoder_post_norm": _STACK,
    "transformer_decoder": _STACK,
    "attention_qkv_unbind": _STACK,
    "vision_transformer": _STACK,
    "tied_language_model": _INDEX,
    "llama": _INDEX,
    "rnn_stacked": _STACK,
    "rnn_last_state": _STACK,
    "lstm": _MKLDNN,
    "lstm_stacked": _MKLDNN,
    "lstm_last_state": _MKLDNN,
    "lstm_bidirectional": _MKLDNN,
    "lstm_stacked_bidirectional": _MKLDNN,
    "gru_stacked": _STACK,
    "gru_bidirectional": _STACK,
    "gcn": _INDEX,
    "gin": _INDEX,
    "sage": _INDEX,
    "gat": _INDEX,
    "spectral_norm": "vectors of power iterations are not state",
}


def marked(names: Iterable[str]) -> list[object]:
    """Parameters of a test, of which the pending ones have to fail."""
    return [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=PENDING[name]))
        if name in PENDING
        else name
        for name in names
    ]
