"""Gradients of the meta-loss: by evolution strategies, and by backpropagation through the inner steps."""

from wsl.learnopt.estimators._backpropagation import FullBackprop, TruncatedBackprop
from wsl.learnopt.estimators._estimator import Estimator, EstimatorState, LaneGroup
from wsl.learnopt.estimators._full_es import FullES
from wsl.learnopt.estimators._objective import Objective
from wsl.learnopt.estimators._pes import PES
from wsl.learnopt.estimators._truncated_es import TruncatedES

__all__ = [
    "PES",
    "Estimator",
    "EstimatorState",
    "FullBackprop",
    "FullES",
    "LaneGroup",
    "Objective",
    "TruncatedBackprop",
    "TruncatedES",
]
