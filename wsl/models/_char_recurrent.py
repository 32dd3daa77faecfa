"""Recurrent language models of characters."""

from torch import Tensor, nn


class CharRNN(nn.Module):
    """An embedding, layers of :class:`torch.nn.RNN` that start from zeros, and a linear layer.

    Args:
        vocabulary: number of characters.
        embedding: values that stand for a character.
        hidden: neurons of each recurrent layer.
        layers: recurrent layers.
        dropout: probability after each recurrent layer; has a part in training only.

    Shapes: input ``(B, n)`` integers, output ``(B, n, vocabulary)``: logits of the character after each one.
    Parameters are named ``embedding``, ``rnn`` (as torch does, such as ``rnn.weight_ih_l0``) and ``head``.
    """

    cell: type[nn.RNN] | type[nn.LSTM] | type[nn.GRU] = nn.RNN

    def __init__(
        self,
        vocabulary: int,
        embedding: int = 16,
        hidden: int = 32,
        layers: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        between = dropout if layers > 1 else 0.0  # torch warns of one that has no part
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.rnn = self.cell(embedding, hidden, layers, batch_first=True, dropout=between)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.rnn(self.embedding(tokens))
        out: Tensor = self.head(self.dropout(states))
        return out


class CharLSTM(CharRNN):
    """:class:`CharRNN` with layers of :class:`torch.nn.LSTM`."""

    cell = nn.LSTM


class CharGRU(CharRNN):
    """:class:`CharRNN` with layers of :class:`torch.nn.GRU`."""

    cell = nn.GRU
