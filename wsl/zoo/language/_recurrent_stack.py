"""Stacked recurrent language models."""

from collections.abc import Mapping

from torch import Tensor

from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.language._recurrences import GruStates, LstmStates, TanhStates
from wsl.zoo.language._stack import LanguageStack, stacked_linear, stacked_rows
from wsl.zoo.training import StackedDropout

_STATES = {"CharGRU": GruStates, "CharLSTM": LstmStates, "CharRNN": TanhStates}


class RecurrentStack(LanguageStack):
    """Stacked :class:`wsl.models.CharRNN`, :class:`wsl.models.CharLSTM` or :class:`wsl.models.CharGRU`."""

    def __init__(self, forward: ForwardDefinition) -> None:
        super().__init__(forward)
        self._kind = _STATES[forward.factory.partition(":")[2]]

    def arrange(self, tokens: Tensor) -> Tensor:
        return tokens.transpose(1, 2).contiguous()

    def features(
        self, parameters: Mapping[str, Tensor], tokens: Tensor, dropout: StackedDropout | None = None
    ) -> Tensor:
        M = len(tokens)
        states = parameters["embedding.weight"]
        for layer in range(self.arguments["layers"]):
            names = (f"rnn.{part}_l{layer}" for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            weight, inner, bias, inner_bias = (parameters[name] for name in names)
            apart = self._kind is GruStates  # there the states' own bias is multiplied by a gate
            read = states if layer == 0 else states.flatten(1, 2)
            inputs = stacked_linear(read, weight, bias if apart else bias + inner_bias)
            # Of the first layer these are the inputs that each character stands for.
            inputs = stacked_rows(inputs, tokens) if layer == 0 else inputs.view(*tokens.shape, -1)
            states = self._kind.apply(inputs, inner, *([inner_bias] if apart else []))
            if dropout is not None and dropout.drops(M):
                states = states * dropout.factors(M, states.shape[1:], states.dtype)
        return states.flatten(1, 2)
