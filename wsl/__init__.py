"""Weight-space learning: neural networks whose input is the weights of other networks."""

from wsl.spec import Axis, Block, BlockRef, Note, Scaling, SpecError, TensorSpec, WeightSpec

__version__ = "0.1.0"

__all__ = [
    "Axis",
    "Block",
    "BlockRef",
    "Note",
    "Scaling",
    "SpecError",
    "TensorSpec",
    "WeightSpec",
]
