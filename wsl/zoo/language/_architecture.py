"""Which architectures the language models of a zoo have."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.language._recurrent_stack import RecurrentStack
from wsl.zoo.language._stack import LanguageStack
from wsl.zoo.language._transformer_stack import TransformerStack
from wsl.zoo.training import as_list, check_choice, check_whole, draw_choice

_CELLS = {"gru": "wsl.models:CharGRU", "lstm": "wsl.models:CharLSTM", "rnn": "wsl.models:CharRNN"}


class LanguageArchitecture(ABC):
    """The architectures that networks of a zoo are drawn from."""

    @abstractmethod
    def draw(self, vocabulary: int, length: int, generator: np.random.Generator) -> ForwardDefinition:
        """The architecture of one network for so many characters and sequences of ``length``."""

    @abstractmethod
    def stack(self, forward: ForwardDefinition) -> LanguageStack:
        """Computes with many networks of one of these architectures at once."""

    @abstractmethod
    def traced_length(self, forward: ForwardDefinition) -> int:
        """Characters of the sequences from which an architecture's specification is found."""

    @abstractmethod
    def columns(self, forward: ForwardDefinition) -> dict[str, Any]:
        """Metadata of a network of this architecture; the same columns for all."""

    def name(self, forward: ForwardDefinition) -> str:
        """A name that tells one of these architectures from the others."""
        return "-".join(map(str, self.columns(forward).values()))


@dataclass(frozen=True)
class CharRecurrents(LanguageArchitecture):
    """Networks of :class:`wsl.models.CharRNN`, :class:`wsl.models.CharLSTM`, :class:`wsl.models.CharGRU`.

    Wherever several values can be given, each network draws its own.

    Args:
        cell: ``rnn``, ``lstm`` or ``gru``.
        hidden: neurons of each recurrent layer.
        layers: recurrent layers.
        embedding: values that stand for a character.

    Raises:
        ZooError: a value outside its range.
    """

    cell: str | list[str] = field(default_factory=lambda: ["rnn", "lstm", "gru"])
    hidden: int | list[int] = 32
    layers: int | list[int] = 1
    embedding: int | list[int] = 16

    def __post_init__(self) -> None:
        check_choice("architecture.cell", self.cell, list(_CELLS))
        for name in ("hidden", "layers", "embedding"):
            _check_sizes(name, getattr(self, name))

    def draw(self, vocabulary: int, length: int, generator: np.random.Generator) -> ForwardDefinition:
        factory = _CELLS[draw_choice(self.cell, generator)]
        sizes = {
            "hidden": draw_choice(self.hidden, generator),
            "layers": draw_choice(self.layers, generator),
            "embedding": draw_choice(self.embedding, generator),
        }
        return ForwardDefinition(factory, {"vocabulary": vocabulary, **sizes})

    def stack(self, forward: ForwardDefinition) -> RecurrentStack:
        return RecurrentStack(forward)

    def traced_length(self, forward: ForwardDefinition) -> int:
        return 4  # every step is alike

    def columns(self, forward: ForwardDefinition) -> dict[str, Any]:
        cells = {factory: cell for cell, factory in _CELLS.items()}
        names = ("hidden", "layers", "embedding")
        return {"cell": cells[forward.factory]} | {name: forward.arguments[name] for name in names}


@dataclass(frozen=True)
class CharTransformers(LanguageArchitecture):
    """Networks of :class:`wsl.models.CharTransformer`.

    Wherever several values can be given, each network draws its own.

    Args:
        d_model: width of the layers.
        heads: of each attention; each value divides each of ``d_model``.
        blocks: layers.
        activation: ``gelu`` or ``relu``.

    Raises:
        ZooError: a value outside its range.
    """

    d_model: int | list[int] = 32
    heads: int | list[int] = 2
    blocks: int | list[int] = field(default_factory=lambda: [1, 2])
    activation: str | list[str] = "gelu"

    def __post_init__(self) -> None:
        for name in ("d_model", "heads", "blocks"):
            _check_sizes(name, getattr(self, name))
        check_choice("architecture.activation", self.activation, ("gelu", "relu"))
        if any(width % heads for width in as_list(self.d_model) for heads in as_list(self.heads)):
            raise ZooError(
                f"architecture.heads is {self.heads} and d_model {self.d_model}, "
                "expected heads that divide the width."
            )

    def draw(self, vocabulary: int, length: int, generator: np.random.Generator) -> ForwardDefinition:
        arguments = {
            "vocabulary": vocabulary,
            "length": length,
            "d_model": draw_choice(self.d_model, generator),
            "heads": draw_choice(self.heads, generator),
            "blocks": draw_choice(self.blocks, generator),
            "activation": draw_choice(self.activation, generator),
        }
        return ForwardDefinition("wsl.models:CharTransformer", arguments)

    def stack(self, forward: ForwardDefinition) -> TransformerStack:
        return TransformerStack(forward)

    def traced_length(self, forward: ForwardDefinition) -> int:
        return int(forward.arguments["length"])  # each position has weights of its own

    def columns(self, forward: ForwardDefinition) -> dict[str, Any]:
        return {name: forward.arguments[name] for name in ("d_model", "heads", "blocks", "activation")}


def _check_sizes(name: str, value: int | list[int]) -> None:
    check_whole(f"architecture.{name}", value, 1, 1e6)
