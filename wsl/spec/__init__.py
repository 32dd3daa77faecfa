"""The weight-space specification: which neuron axis each dimension of each parameter tensor belongs to.

A :class:`WeightSpec` is a small frozen value that holds no weights. It prints as text, parses back from that
text, and compares with ``==``. Everything else in the package is derived from it.
"""

from wsl.spec._dims import Dim, Factor, factors_of
from wsl.spec._topology import Edge, NodeSet, Topology, edge_ends, stored_dims
from wsl.spec._values import Axis, Block, BlockRef, Exponent, Note, Scaling, SpecError, TensorSpec
from wsl.spec._weight_spec import WeightSpec
from wsl.spec._weights import is_running_statistic, part_of

__all__ = [
    "Axis",
    "Block",
    "BlockRef",
    "Dim",
    "Edge",
    "Exponent",
    "Factor",
    "NodeSet",
    "Note",
    "Scaling",
    "SpecError",
    "TensorSpec",
    "Topology",
    "WeightSpec",
    "edge_ends",
    "factors_of",
    "is_running_statistic",
    "part_of",
    "stored_dims",
]
