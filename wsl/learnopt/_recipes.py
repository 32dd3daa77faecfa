"""Given learned optimizers, made from a specification and plain values."""

from abc import abstractmethod

from wsl.encoders import GraphMetanetwork
from wsl.learnopt._adafactor import AdafactorFeatures
from wsl.learnopt._features import MomentumFeatures
from wsl.learnopt._learned import LearnedOptimizer, NormalisedOptimizer
from wsl.learnopt.networks import NFN, UNF, EncoderNetwork, PerParameter, UpdateNetwork
from wsl.spec import WeightSpec


class _PaperOptimizer(LearnedOptimizer):
    """What the optimizers of Zhou et al. 2024 (arXiv:2402.05232) share: all but the update network."""

    def __init__(
        self,
        spec: WeightSpec,
        hidden: int = 32,
        layers: int = 3,
        rate: float = 0.1,
        gain: float = 0.01,
        momentum: float = 0.9,
    ) -> None:
        features = MomentumFeatures()
        network = self.make_network(spec, features.entry_channels, features.shared_channels, hidden, layers)
        super().__init__(spec, features, network, rate=rate, gain=gain, momentum=momentum)

    @staticmethod
    @abstractmethod
    def make_network(spec: WeightSpec, entry: int, shared: int, hidden: int, layers: int) -> UpdateNetwork:
        """The network, for so many channels of each weight and of all."""


class UNFOptimizer(_PaperOptimizer):
    """A universal neural functional as an optimizer: 19 channels, an MLP of every weight, a universal layer.

    3,783 parameters on a 64-32-10 MLP. They depend on the tensors of the architecture, but not on its sizes:
    :meth:`on` takes wider networks. Any topology will do: residual, recurrent, attention.

    Args:
        spec: the specification of the weights.
        hidden, layers: of the MLP.
        rate, gain, momentum: as of :class:`LearnedOptimizer`.

    Source: Zhou et al. 2024 (arXiv:2402.05232, appendix C.1).
    """

    @staticmethod
    def make_network(spec: WeightSpec, entry: int, shared: int, hidden: int, layers: int) -> UpdateNetwork:
        return UNF(spec, entry, shared, hidden, layers)


class NFNOptimizer(_PaperOptimizer):
    """:class:`UNFOptimizer` with an NP-layer in place of the universal one, for MLPs and plain CNNs.

    Args:
        spec: a chain of linear or convolutional layers.
        hidden, layers, rate, gain, momentum: as of :class:`UNFOptimizer`.

    Raises:
        SpecError: another topology.

    Source: Zhou et al. 2024 (arXiv:2402.05232), a baseline.
    """

    @staticmethod
    def make_network(spec: WeightSpec, entry: int, shared: int, hidden: int, layers: int) -> UpdateNetwork:
        return NFN(spec, entry, shared, hidden, layers)


class DeepSetsOptimizer(_PaperOptimizer):
    """:class:`UNFOptimizer` without its universal layer: an MLP of every weight. 2,788 parameters anywhere.

    Args:
        spec: the specification of the weights; :meth:`on` takes any other.
        hidden, layers, rate, gain, momentum: as of :class:`UNFOptimizer`.

    Source: Zhou et al. 2024 (arXiv:2402.05232), the baseline of this name, whose number of parameters leaves
    no room for pooled terms; :class:`wsl.learnopt.networks.DeepSets` has them.
    """

    @staticmethod
    def make_network(spec: WeightSpec, entry: int, shared: int, hidden: int, layers: int) -> UpdateNetwork:
        return PerParameter(entry, shared, hidden, layers)


class SmallFCOptimizer(LearnedOptimizer):
    """A tiny MLP of every weight, on 39 channels with statistics of rows and columns; 195 parameters.

    Args:
        spec: the specification of the weights; :meth:`on` takes any other.
        hidden, layers: of the MLP.
        rate, gain, momentum: as of :class:`LearnedOptimizer`.

    Source: Metz et al. 2022 (arXiv:2203.11860), small_fc_lopt. Deviates: momentum beside the
    output, which is a direction without a magnitude of its own.
    """

    def __init__(
        self,
        spec: WeightSpec,
        hidden: int = 4,
        layers: int = 2,
        rate: float = 0.1,
        gain: float = 0.01,
        momentum: float = 0.9,
    ) -> None:
        features = AdafactorFeatures()
        network = PerParameter(features.entry_channels, features.shared_channels, hidden, layers)
        super().__init__(spec, features, network, rate=rate, gain=gain, momentum=momentum)


class Celo2Optimizer(NormalisedOptimizer):
    """:class:`SmallFCOptimizer` whose every step is normalised, for tasks of many scales; 195 parameters.

    Args:
        spec: the specification of the weights; :meth:`on` takes any other.
        hidden, layers: of the MLP.
        rate, gain, momentum: as of :class:`NormalisedOptimizer`.

    Source: Moudgil et al. 2026 (arXiv:2602.19142). Deviates: the step is encoded, in place of a schedule from
    outside; momentum beside the output; four neurons a layer, not eight; no orthogonalisation.
    """

    def __init__(
        self,
        spec: WeightSpec,
        hidden: int = 4,
        layers: int = 2,
        rate: float = 0.003,
        gain: float = 0.1,
        momentum: float = 0.9,
    ) -> None:
        features = AdafactorFeatures()
        network = PerParameter(features.entry_channels, features.shared_channels, hidden, layers)
        super().__init__(spec, features, network, rate=rate, gain=gain, momentum=momentum)


class GraphOptimizer(LearnedOptimizer):
    """A graph metanetwork reads the features of all weights.

    Args:
        spec: the specification of the weights; :meth:`on` takes any other.
        channels, layers: of the graph metanetwork.
        numbers: how many numbers of every weight it reads.
        hidden: of the MLPs before and after it.
        rate, gain, momentum: as of :class:`LearnedOptimizer`.

    Source: Lim et al. 2023 (arXiv:2312.04501) in the optimizer of Zhou et al. 2024 (arXiv:2402.05232).
    """

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 16,
        layers: int = 2,
        numbers: int = 4,
        hidden: int = 32,
        rate: float = 0.1,
        gain: float = 0.01,
        momentum: float = 0.9,
    ) -> None:
        features = MomentumFeatures()
        encoder = GraphMetanetwork(spec, channels, layers, frequencies=0)
        network = EncoderNetwork(encoder, features.entry_channels, features.shared_channels, numbers, hidden)
        super().__init__(spec, features, network, rate=rate, gain=gain, momentum=momentum)
