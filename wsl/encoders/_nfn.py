"""Neural functional networks, HNP and NP, for MLPs and plain CNNs."""

from itertools import pairwise

import torch
from torch import Tensor

from wsl.encoders._chain import ChainEncoder, check_layers
from wsl.nn import GaussianFourierFeatures, NFNLayer, WeightChain, index_encoding, weight_chain
from wsl.spec import WeightSpec

_INDEX_FREQUENCIES = 6


class NFNHNP(ChainEncoder):
    """A neural functional network that is equivariant to permutations of hidden neurons (HNP).

    Gaussian Fourier features of every weight, then layers of all equivariant affine maps and ReLU. Inputs,
    outputs and kernel positions are channels, so the number of parameters grows with the square of their
    number; :class:`NFNNP` shares parameters among inputs and among outputs.

    Args:
        spec: a feedforward network: a chain of linear or convolutional layers, any of them with or without a
            bias, flattened dimensions, norm parameters. The parameters depend on it.
        channels: width of all features. The paper's experiments have 512 for INRs, 16 for CNNs.
        layers: number of layers. The paper's experiments have 3.
        frequencies: Gaussian Fourier frequencies for every weight. The paper's have 256 for INRs, 0 for CNNs.
        checkpoint: compute every layer again in the backward pass: the same results, slower, in less memory,
            as Fourier features are not kept. (Of a layer nothing is kept but what goes in and out.)

    Raises:
        SpecError: another topology (families, repeated axes, residual connections, branches).
        ValueError: no channels, no layers, or a negative number of frequencies.

    Source: Zhou et al. 2023 (arXiv:2302.14040). Deviates: the frequencies have several scales (see
    :class:`wsl.nn.GaussianFourierFeatures`). What follows in the paper is :class:`wsl.nn.InvariantHead`.
    """

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 64,
        layers: int = 3,
        *,
        frequencies: int = 16,
        checkpoint: bool = False,
    ) -> None:
        check_layers("NFNHNP", channels, layers)
        fourier = GaussianFourierFeatures(frequencies)
        super().__init__(spec, _stack(weight_chain(spec), fourier.channels, channels, layers), checkpoint)
        self.fourier = fourier

    def embed(self, key: str, block: Tensor) -> Tensor:
        features: Tensor = self.fourier(block)
        return features


class NFNNP(ChainEncoder):
    """A neural functional network whose layers permute all neurons, and tell fixed ones by encodings (NP).

    As :class:`NFNHNP`, with fewer parameters: inputs and outputs are permuted as hidden neurons are, and told
    apart by sinusoids of their indices, which are further channels of the first layer. So the encoder as a
    whole is equivariant to permutations of hidden neurons only.

    Arguments, errors and source are those of :class:`NFNHNP`. Deviates also: the index of a layer is not
    encoded, as the biases of the first layer do the same.
    """

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 64,
        layers: int = 3,
        *,
        frequencies: int = 16,
        checkpoint: bool = False,
    ) -> None:
        check_layers("NFNNP", channels, layers)
        fourier = GaussianFourierFeatures(frequencies)
        embedded = fourier.channels + 2 * _INDEX_FREQUENCIES + 1
        stack = _stack(weight_chain(spec, all_axes=True), embedded, channels, layers)
        super().__init__(spec, stack, checkpoint)
        self.fourier = fourier

    def embed(self, key: str, block: Tensor) -> Tensor:
        encoding = index_encoding(self.spec, key, _INDEX_FREQUENCIES).to(block)
        return torch.cat([self.fourier(block), encoding.expand(*block.shape, -1)], dim=-1)


def _stack(chain: WeightChain, embedded: int, channels: int, layers: int) -> list[NFNLayer]:
    widths = [embedded] + [channels] * layers
    return [NFNLayer(chain, fan_in, fan_out) for fan_in, fan_out in pairwise(widths)]
