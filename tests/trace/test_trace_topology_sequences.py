"""Node sets and edges of transformers, recurrent and graph networks, derived by hand."""

import architectures
import pytest
import torch
from test_trace_topology import check, written
from torch import Tensor, nn

import wsl


class Around(nn.Module):
    """A module between two layers; of a tuple, the first entry is read."""

    def __init__(self, inner: nn.Module, width: int, out: int | None = None) -> None:
        super().__init__()
        self.embed, self.inner, self.head = nn.Linear(3, width), inner, nn.Linear(out or width, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(self.embed(x))
        return self.head(y[0] if isinstance(y, tuple) else y)


class SelfAttention(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(6, 2, bias=bias, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x, x, x, need_weights=False)[0]


def test_attention_is_two_products_and_a_softmax() -> None:
    check(
        Around(SelfAttention(False), 6),
        torch.randn(2, 4, 3),
        """
        x(x) h1(h1) h3(h2 h3) h3.2(h2 h3) h4(h2 h4) h2(h2):product h2.2(h2):softmax \
h4.2(h2 h4):product h5(h5) y(y)
        h1 <- x embed.weight, - embed.bias
        h3 <- h1 inner.attend.in_proj_weight[0]
        h3.2 <- h1 inner.attend.in_proj_weight[1]
        h4 <- h1 inner.attend.in_proj_weight[2]
        h2 <- h3, h3.2
        h2.2 <- h2
        h4.2 <- h2.2, h4
        h5 <- h4.2 inner.attend.out_proj.weight
        y <- h5 head.weight, - head.bias
        """,
    )


def _layer(norm_first: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(6, 2, 5, bias=False, batch_first=True, norm_first=norm_first)
    return Around(layer, 6)


def test_norms_after_the_residual_sums() -> None:
    check(
        _layer(norm_first=False),
        torch.randn(2, 4, 3),
        """
        x(x) h1(h1) h3(h2 h3) h3.2(h2 h3) h4(h2 h4) h2(h2):product h2.2(h2):softmax h4.2(h2 h4):product \
h1.2(h1):layer_norm h5(h5):relu h1.3(h1):layer_norm y(y)
        h1 <- x embed.weight, - embed.bias
        h3 <- h1 inner.self_attn.in_proj_weight[0]
        h3.2 <- h1 inner.self_attn.in_proj_weight[1]
        h4 <- h1 inner.self_attn.in_proj_weight[2]
        h2 <- h3, h3.2
        h2.2 <- h2
        h4.2 <- h2.2, h4
        h1.2 <- h4.2 inner.self_attn.out_proj.weight, h1, - inner.norm1.weight
        h5 <- h1.2 inner.linear1.weight
        h1.3 <- h5 inner.linear2.weight, h1.2, - inner.norm2.weight
        y <- h1.3 head.weight, - head.bias
        """,
    )


def test_norms_ahead_of_the_residual_branches() -> None:
    check(
        _layer(norm_first=True),
        torch.randn(2, 4, 3),
        """
        x(x) h1(h1) h1.2(h1):layer_norm h3(h2 h3) h3.2(h2 h3) h4(h2 h4) h2(h2):product h2.2(h2):softmax \
h4.2(h2 h4):product h1.3(h1) h1.4(h1):layer_norm h5(h5):relu h1.5(h1) y(y)
        h1 <- x embed.weight, - embed.bias
        h1.2 <- h1, - inner.norm1.weight
        h3 <- h1.2 inner.self_attn.in_proj_weight[0]
        h3.2 <- h1.2 inner.self_attn.in_proj_weight[1]
        h4 <- h1.2 inner.self_attn.in_proj_weight[2]
        h2 <- h3, h3.2
        h2.2 <- h2
        h4.2 <- h2.2, h4
        h1.3 <- h4.2 inner.self_attn.out_proj.weight, h1
        h1.4 <- h1.3, - inner.norm2.weight
        h5 <- h1.4 inner.linear1.weight
        h1.5 <- h5 inner.linear2.weight, h1.3
        y <- h1.5 head.weight, - head.bias
        """,
    )


class LanguageModel(nn.Module):
    """GPT-2 without attention: positions, a class token, and a head that is tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(7, 6)
        self.positions, self.start = nn.Parameter(torch.randn(5, 6)), nn.Parameter(torch.randn(1, 1, 6))
        self.norm, self.up, self.down = nn.LayerNorm(6), nn.Linear(6, 5), nn.Linear(5, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.start.expand(len(x), 1, 6), self.tokens(x)], 1) + self.positions
        x = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
        return x @ self.tokens.weight.T


def test_embeddings_lead_from_their_indices_to_the_residual_stream() -> None:
    check(
        LanguageModel(),
        torch.randint(7, (3, 4)),
        """
        y(y) h1(h1) h1.2(h1):layer_norm h2(h2):gelu h1.3(h1) y.2(y)
        h1 <- y tokens.weight st, - positions, - start
        h1.2 <- h1, - norm.weight, - norm.bias
        h2 <- h1.2 up.weight, - up.bias
        h1.3 <- h2 down.weight, - down.bias, h1
        y.2 <- h1.3 tokens.weight
        """,
    )


def test_time_steps_of_a_recurrence_are_one_node_set() -> None:
    assert not wsl.trace(Around(nn.RNN(5, 4), 5, 4), torch.randn(6, 2, 3)).nodes


def test_gates_of_an_lstm_are_node_sets_of_one_axis() -> None:
    check(
        Around(nn.LSTM(5, 4, bias=False, batch_first=True), 5, 4),
        torch.randn(2, 6, 3),
        """
        x(x) h1(h1) h2(h2):sigmoid h2.2(h2):sigmoid h2.3(h2):tanh h2.4(h2):sigmoid h2.5(h2):product \
h2.6(h2):product h2.7(h2) h2.8(h2):tanh h2.9(h2):product y(y)
        h1 <- x embed.weight, - embed.bias
        h2 <- h1 inner.weight_ih_l0[0], h2.9 inner.weight_hh_l0[0]
        h2.2 <- h1 inner.weight_ih_l0[1], h2.9 inner.weight_hh_l0[1]
        h2.3 <- h1 inner.weight_ih_l0[2], h2.9 inner.weight_hh_l0[2]
        h2.4 <- h1 inner.weight_ih_l0[3], h2.9 inner.weight_hh_l0[3]
        h2.5 <- h2.2, h2.7
        h2.6 <- h2, h2.3
        h2.7 <- h2.5, h2.6
        h2.8 <- h2.7
        h2.9 <- h2.4, h2.8
        y <- h2.9 head.weight, - head.bias
        """,
    )


def test_the_first_step_of_a_gru_is_like_the_others() -> None:
    check(
        Around(nn.GRU(5, 4, bias=False, batch_first=True), 5, 4),
        torch.randn(2, 6, 3),
        """
        x(x) h1(h1) h2(h2):sigmoid h2.2(h2):sigmoid h2.3(h2):tanh h2.4(h2) h2.5(h2):product h2.6(h2) \
h2.7(h2):product h2.8(h2) y(y)
        h1 <- x embed.weight, - embed.bias
        h2 <- h1 inner.weight_ih_l0[0], h2.8 inner.weight_hh_l0[0]
        h2.2 <- h1 inner.weight_ih_l0[1], h2.8 inner.weight_hh_l0[1]
        h2.3 <- h1 inner.weight_ih_l0[2], h2.5
        h2.4 <- h2.8 inner.weight_hh_l0[2]
        h2.5 <- h2, h2.4
        h2.6 <- h2.3, h2.8
        h2.7 <- h2.6, h2.2
        h2.8 <- h2.7, h2.3
        y <- h2.8 head.weight, - head.bias
        """,
    )


def test_a_recurrence_of_one_step_keeps_its_weights() -> None:
    spec = wsl.trace(Around(nn.LSTM(5, 4, batch_first=True), 5, 4), torch.randn(2, 1, 3))
    assert {ref.key for ref in spec.blocks} <= {edge.block for edge in spec.topology.edges}


@pytest.mark.parametrize(
    "name", ["lstm_stacked", "gru_bidirectional", "transformer_encoder", "selective_scan"]
)
def test_batch_and_sequence_make_no_difference(name: str) -> None:
    row = architectures.KNOWN[name]
    module = row.build()
    texts = {tuple(written(wsl.trace(module, torch.randn(*sizes, 3)))) for sizes in ((2, 4), (3, 4), (2, 7))}
    assert len(texts) == 1


def test_messages_along_edges_of_a_graph_keep_the_node_set() -> None:
    row = architectures.KNOWN["gcn"]
    assert not wsl.trace(row.build(), row.inputs()).nodes


def test_a_square_weight_that_is_read_as_a_tensor_lies_between_its_neurons(caplog):
    class Power(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(3, 5), nn.Linear(5, 2)
            self.weight = nn.Parameter(torch.randn(5, 5))

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.first(x) @ torch.matrix_power(self.weight, 3))

    spec = wsl.trace(Power(), torch.randn(4, 3))
    pairs = {(edge.source, edge.target) for edge in spec.topology.edges if edge.block == "weight"}
    assert ("h1", "h1.2") in pairs and all(None not in pair for pair in pairs)
    assert not caplog.records
