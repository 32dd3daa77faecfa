"""Networks of learned optimizers: features of every weight in, a number for each out."""

from wsl.learnopt.networks._base import UpdateNetwork
from wsl.learnopt.networks._deep_sets import DeepSets
from wsl.learnopt.networks._encoder import EncoderNetwork
from wsl.learnopt.networks._nfn import NFN
from wsl.learnopt.networks._per_parameter import PerParameter
from wsl.learnopt.networks._universal import UNF

__all__ = ["NFN", "UNF", "DeepSets", "EncoderNetwork", "PerParameter", "UpdateNetwork"]
