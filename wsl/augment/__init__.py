"""Weight augmentations: the same function, or nearly the same, or a known other one, from other weights.

Each is a small value with its own arguments, acts on raw weights of a batch, on their device, and draws all
that is random from an explicit generator. They are meant for training batches only. Which of them leave every
network's function as it is, :attr:`Augmentation.preserves_function` says:

* same function: :class:`Permute`, :class:`FlipSigns`, :class:`Rescale`, :class:`ShiftPhases`;
* nearly the same: :class:`AddNoise`, :class:`DropWeights`, :class:`MaskSmallest`;
* the same signal, moved: :class:`RotateInputs`, :class:`TranslateInputs`, :class:`ScaleInputs`;
* between two networks and their labels: :class:`MixUp`, :class:`PermutedMixUp`, :class:`AlignedMixUp`.

Source: Shamsian et al. 2024 (arXiv:2402.04081).
"""

from wsl.augment._base import Augmentation, AugmentError, Networks, augment
from wsl.augment._coordinates import move_coordinates
from wsl.augment._inputs import RotateInputs, ScaleInputs, TranslateInputs
from wsl.augment._mixup import AlignedMixUp, MixUp, PermutedMixUp
from wsl.augment._noise import AddNoise, DropWeights, MaskSmallest
from wsl.augment._phases import ShiftPhases
from wsl.augment._symmetries import FlipSigns, Permute, Rescale

__all__ = [
    "AddNoise",
    "AlignedMixUp",
    "AugmentError",
    "Augmentation",
    "DropWeights",
    "FlipSigns",
    "MaskSmallest",
    "MixUp",
    "Networks",
    "Permute",
    "PermutedMixUp",
    "Rescale",
    "RotateInputs",
    "ScaleInputs",
    "ShiftPhases",
    "TranslateInputs",
    "augment",
    "move_coordinates",
]
