"""Learned optimization: optimizers that are encoders of gradients, and how they are trained.

Everything works on *lanes*: many trainings of one architecture, stacked along the first dimension of every
tensor and advanced in one vectorised step.
"""

from wsl.learnopt._adafactor import AdafactorFeatures
from wsl.learnopt._card import Card, OptimizerFileError
from wsl.learnopt._entries import Entries
from wsl.learnopt._features import MomentumFeatures, OptimizerFeatures
from wsl.learnopt._file import load, pretrained, read_optimizer, save
from wsl.learnopt._lanes import Advanced, Lanes, Stepped, advance, bounded, restart, start, step_lanes
from wsl.learnopt._learned import LearnedOptimizer, NormalisedOptimizer, in_type
from wsl.learnopt._nowcast import GraphNowcaster, Nowcaster, nowcast_loss
from wsl.learnopt._nowcasting import Nowcasting
from wsl.learnopt._recipes import (
    Celo2Optimizer,
    DeepSetsOptimizer,
    GraphOptimizer,
    NFNOptimizer,
    SmallFCOptimizer,
    UNFOptimizer,
)
from wsl.learnopt._stored import OptimizerFile
from wsl.learnopt._torch_optimizer import TorchOptimizer
from wsl.learnopt._trajectories import record_trajectories, zoo_trajectories
from wsl.learnopt._types import State, Tensors
from wsl.learnopt.estimators import (
    PES,
    Estimator,
    EstimatorState,
    FullBackprop,
    FullES,
    LaneGroup,
    Objective,
    TruncatedBackprop,
    TruncatedES,
)
from wsl.learnopt.evaluation import Trainings, evaluate
from wsl.learnopt.optimizers import (
    SGD,
    Adam,
    AdamW,
    Lion,
    Muon,
    Optimizer,
    PerLane,
    Schedule,
    constant,
    cosine,
    linear,
)
from wsl.learnopt.tasks import (
    CharacterRnn,
    CharacterTransformer,
    CnnImages,
    InrFitting,
    MlpImages,
    ModuleTask,
    Quadratics,
    Rescaled,
    Rosenbrock,
    Task,
    TaskFamily,
)
from wsl.learnopt.truncation import Constant, LogUniform, Truncation

__all__ = [
    "PES",
    "SGD",
    "AdafactorFeatures",
    "Adam",
    "AdamW",
    "Advanced",
    "Card",
    "Celo2Optimizer",
    "CharacterRnn",
    "CharacterTransformer",
    "CnnImages",
    "Constant",
    "DeepSetsOptimizer",
    "Entries",
    "Estimator",
    "EstimatorState",
    "FullBackprop",
    "FullES",
    "GraphNowcaster",
    "GraphOptimizer",
    "InrFitting",
    "LaneGroup",
    "Lanes",
    "LearnedOptimizer",
    "Lion",
    "LogUniform",
    "MlpImages",
    "ModuleTask",
    "MomentumFeatures",
    "Muon",
    "NFNOptimizer",
    "NormalisedOptimizer",
    "Nowcaster",
    "Nowcasting",
    "Objective",
    "Optimizer",
    "OptimizerFeatures",
    "OptimizerFile",
    "OptimizerFileError",
    "PerLane",
    "Quadratics",
    "Rescaled",
    "Rosenbrock",
    "Schedule",
    "SmallFCOptimizer",
    "State",
    "Stepped",
    "Task",
    "TaskFamily",
    "Tensors",
    "TorchOptimizer",
    "Trainings",
    "TruncatedBackprop",
    "TruncatedES",
    "Truncation",
    "UNFOptimizer",
    "advance",
    "bounded",
    "constant",
    "cosine",
    "evaluate",
    "in_type",
    "linear",
    "load",
    "nowcast_loss",
    "pretrained",
    "read_optimizer",
    "record_trajectories",
    "restart",
    "save",
    "start",
    "step_lanes",
    "zoo_trajectories",
]
