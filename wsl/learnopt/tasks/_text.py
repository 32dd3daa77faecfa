"""Language models of characters."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsl.learnopt._random import integers, key_of
from wsl.learnopt._types import Tensors
from wsl.learnopt.tasks._module_task import BATCH, SPLITS, ModuleTask, check_split
from wsl.learnopt.tasks._task import has_graph, stacked_gradient
from wsl.models import CharLSTM, CharRNN, CharTransformer
from wsl.zoo import ForwardDefinition
from wsl.zoo.language import (
    CharacterText,
    CharRecurrents,
    CharTransformers,
    LanguageArchitecture,
    PydocText,
    TextSource,
    character_text,
)

_TEST = 0.1
_CEILING = 20.0  # nats; a guess among a hundred characters costs 4.6


class CharacterTask(ModuleTask):
    """Mean cross-entropy in nats of each character of a text, given those before it.

    Problems differ in initial parameters and in where the pieces of text begin, anywhere, anew in each step.

    Args:
        network: class of the network, of :mod:`wsl.models`.
        arguments: of the network, besides the number of characters.
        architecture: computes with many such networks at once.
        source: the text, whose last tenth is to test on; by default Python's documentation of itself.
        length: characters that the network reads of each piece.
        batch_size: pieces of a step.
    """

    def __init__(
        self,
        network: type[nn.Module],
        arguments: dict[str, Any],
        architecture: LanguageArchitecture,
        source: TextSource | None,
        length: int,
        batch_size: int,
    ) -> None:
        text: CharacterText = character_text((source or PydocText()).load(), _TEST, length)
        self.vocabulary, self.length = text.vocabulary, length
        arguments = {"vocabulary": len(text.vocabulary), **arguments}
        make = partial(network, **arguments)
        self._stack = architecture.stack(ForwardDefinition(f"wsl.models:{network.__name__}", arguments))
        windows = text.train[: length + 1][None]
        super().__init__(make, _cross_entropy, (windows[:, :-1], windows[:, 1:]), None, batch_size, _CEILING)
        self.data = {"train": text.train, "test": text.test}

    def batch(self, seeds: Tensor, step: Tensor, split: str = "train") -> tuple[Tensor, Tensor]:
        """Characters and those after them, int64 ``(L, batch_size, length)``."""
        check_split(split)
        codes = self.data[split]
        key = key_of(seeds, BATCH, SPLITS.index(split))
        begin = integers(key, self.batch_size, len(codes) - self.length, step * self.batch_size)
        places = begin[..., None] + torch.arange(self.length + 1, device=codes.device)
        pieces = codes.index_select(0, places.flatten()).view(places.shape)
        return pieces[..., :-1], pieces[..., 1:]

    def values(self, params: Tensors, batch: tuple[Tensor, Tensor]) -> Tensor:
        return super().values(params, batch) if has_graph(params) else self._losses(params, batch)

    def values_and_grads(self, params: Tensors, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensors]:
        if has_graph(params):  # the stack has no second derivatives
            return super().values_and_grads(params, batch)
        return stacked_gradient(lambda tensors: self._losses(tensors, batch), params)

    def _losses(self, params: Tensors, batch: tuple[Tensor, Tensor]) -> Tensor:
        read, wanted = (self._stack.arrange(part) for part in batch)
        logits = self._stack.logits(params, read)
        losses = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
        return losses.view(len(read), -1).mean(1)


class CharacterRnn(CharacterTask):
    """A recurrent network that reads characters, :class:`wsl.models.CharRNN` or :class:`wsl.models.CharLSTM`.

    Args:
        source: the text, whose last tenth is to test on; by default Python's documentation of itself.
        hidden: neurons of the recurrent layer.
        embedding: values that stand for a character.
        gated: whether the layer is an LSTM.
        length: characters that the network reads of each piece.
        batch_size: pieces of a step.
    """

    def __init__(
        self,
        source: TextSource | None = None,
        hidden: int = 64,
        embedding: int = 16,
        gated: bool = False,
        length: int = 32,
        batch_size: int = 16,
    ) -> None:
        arguments = {"embedding": embedding, "hidden": hidden, "layers": 1}
        network = CharLSTM if gated else CharRNN
        super().__init__(network, arguments, CharRecurrents(), source, length, batch_size)


class CharacterTransformer(CharacterTask):
    """A Transformer that reads characters, :class:`wsl.models.CharTransformer`.

    Args:
        source: the text, whose last tenth is to test on; by default Python's documentation of itself.
        d_model: width of the layers.
        heads: of each attention; divides ``d_model``.
        blocks: layers.
        length: characters that the network reads of each piece.
        batch_size: pieces of a step.
    """

    def __init__(
        self,
        source: TextSource | None = None,
        d_model: int = 32,
        heads: int = 2,
        blocks: int = 2,
        length: int = 32,
        batch_size: int = 16,
    ) -> None:
        arguments: dict[str, Any] = {"length": length, "d_model": d_model, "heads": heads, "blocks": blocks}
        arguments["activation"] = "gelu"
        super().__init__(CharTransformer, arguments, CharTransformers(), source, length, batch_size)


def _cross_entropy(logits: Tensor, wanted: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
