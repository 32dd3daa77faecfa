"""Universal neural functionals: deep networks of all equivariant linear maps, for any architecture."""

from functools import partial

from torch import Tensor, nn

from wsl.encoders._states import StateEncoder
from wsl.nn import UniversalLinear
from wsl.spec import WeightSpec


class UniversalNeuralFunctional(StateEncoder):
    """Layers that hold every linear map which commutes with the permutations of hidden neurons.

    Accepts any specification: axes that a tensor carries twice (recurrent weights), axes that many tensors
    share (residual streams), products and sums of axes, families (attention heads, groups). The topology only
    tells which node sets to give features of. The parameters depend on the specification: ``channels ** 2``
    for each term, and at least one term for each pair of tensors, so their number grows with the square of
    the number of tensors.

    Indices that may not be permuted:

    * input, output and fixed axes of at most ``ordered`` indices are folded into the channels, so that each
      pair of their indices has a map of its own, and the layers are still all equivariant maps;
    * larger ones, and those that a family is over, are read by the same terms as hidden axes, with a learned
      embedding of every index in the first states. Time, memory and parameters stay linear in their size,
      but they are no longer all equivariant maps;
    * kernel positions are channels of the first states, and share states after that. The features of a weight
      are a gain for its position times that state, plus a linear map of its own Fourier features.

    Features of nodes are read from the last states by one more such layer.

    Args:
        spec: the specification of the weights.
        channels: width of all states, and of the output.
        layers: number of layers, with a ReLU after each.
        frequencies: Gaussian Fourier frequencies for every weight.
        ordered: largest size of an axis, not a hidden one, whose indices have maps of their own.
        checkpoint: compute every layer again in the backward pass: the same results, slower, in less memory.

    Raises:
        SpecError: a block carries one axis more than 4 times.
        ValueError: no channels, or a negative number of layers or frequencies.

    Source: Zhou et al. 2024 (arXiv:2402.05232); Fourier features of Zhou et al. 2023 (arXiv:2302.14040).
    Deviates: inputs and outputs are not permuted; maps start as the identity plus noise, so that deep
    encoders keep what tells single weights apart; otherwise as :class:`wsl.nn.UniversalLinear` says.
    """

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 32,
        layers: int = 4,
        *,
        frequencies: int = 16,
        ordered: int = 4,
        checkpoint: bool = False,
    ) -> None:
        super().__init__(spec, channels, frequencies, ordered, checkpoint)
        if layers < 0 or ordered < 0:
            raise ValueError(f"layers and ordered are at least 0, got layers={layers}, ordered={ordered}.")
        tensors, sizes, families = self.layout.inputs, self.layout.sizes, self.layout.families
        stack = [
            UniversalLinear(tensors, tensors, sizes, channels, channels, families) for _ in range(layers)
        ]
        for layer in stack:
            layer.add_identity()
        self.layers = nn.ModuleList(stack)

    def update(self, states: list[Tensor]) -> list[Tensor]:
        """All layers, with a ReLU after each."""
        for layer in self.layers:
            states = self.step(partial(_rectified, layer), states)
        return states


def _rectified(layer: nn.Module, states: list[Tensor]) -> list[Tensor]:
    return [state.relu() for state in layer(states)]
