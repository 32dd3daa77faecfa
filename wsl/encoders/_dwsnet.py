"""DWSNets: deep weight-space networks for MLPs and plain CNNs."""

from itertools import pairwise

from torch import Tensor

from wsl.encoders._chain import ChainEncoder, check_layers
from wsl.nn import DWSLayer, weight_chain
from wsl.spec import WeightSpec


class DWSNet(ChainEncoder):
    """Equivariant layers with a block for every pair of weights and biases, pooled by the maximum.

    Reads raw (standardised) weights. Equivariant to permutations of hidden neurons; inputs, outputs and
    kernel positions are channels, so the number of parameters grows with the square of their number.

    Args:
        spec: a feedforward network: a chain of linear or convolutional layers, any of them with or without a
            bias, flattened dimensions, norm parameters. The parameters depend on it.
        channels: width of all features. The paper's experiments have 32.
        layers: number of layers. The paper's experiments have 5.
        checkpoint: compute every layer again in the backward pass: the same results, slower, in less memory.

    Raises:
        SpecError: another topology (families, repeated axes, residual connections, branches).
        ValueError: no channels or no layers.

    Source: Navon et al. 2023 (arXiv:2301.12780). Deviates as :class:`wsl.nn.DWSLayer` says, and: blocks
    between two sets are linear (DeepSets) and not attention, large inputs are not down-sampled, kernel
    positions are channels as in NFN. Networks may have fewer than three layers.
    """

    def __init__(
        self, spec: WeightSpec, channels: int = 32, layers: int = 5, *, checkpoint: bool = False
    ) -> None:
        check_layers("DWSNet", channels, layers)
        chain = weight_chain(spec)
        widths = [1] + [channels] * layers
        stack = [DWSLayer(chain, fan_in, fan_out) for fan_in, fan_out in pairwise(widths)]
        super().__init__(spec, stack, checkpoint)

    def embed(self, key: str, block: Tensor) -> Tensor:
        return block.unsqueeze(-1)
