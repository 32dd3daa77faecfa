"""Layers: weight embeddings, message passing on dense blocks, probes, heads."""

from wsl.nn._edge_update import update_edges, update_hyperedges
from wsl.nn._embedding import GraphState, PositionGains, WeightEmbedding
from wsl.nn._fourier import GaussianFourierFeatures
from wsl.nn._heads import EquivariantHead, InvariantHead
from wsl.nn._message_passing import MessagePassing
from wsl.nn._probes import ProbeFeatures
from wsl.nn._readout import WeightReadout
from wsl.nn._universal import UniversalLinear
from wsl.nn._universal_layout import Placement, UniversalEmbedding, UniversalLayout, UniversalReadout
from wsl.nn._universal_terms import Signature

__all__ = [
    "EquivariantHead",
    "GaussianFourierFeatures",
    "GraphState",
    "InvariantHead",
    "MessagePassing",
    "Placement",
    "PositionGains",
    "ProbeFeatures",
    "Signature",
    "UniversalEmbedding",
    "UniversalLayout",
    "UniversalLinear",
    "UniversalReadout",
    "WeightEmbedding",
    "WeightReadout",
    "update_edges",
    "update_hyperedges",
]
