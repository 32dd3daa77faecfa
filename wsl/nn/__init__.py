"""Layers: weight embeddings, message passing on dense blocks, probes, heads."""

from wsl.nn._edge_update import update_edges, update_hyperedges
from wsl.nn._embedding import GraphState, PositionGains, WeightEmbedding
from wsl.nn._fourier import GaussianFourierFeatures
from wsl.nn._heads import EquivariantHead, InvariantHead
from wsl.nn._message_passing import MessagePassing
from wsl.nn._probes import ProbeFeatures
from wsl.nn._readout import WeightReadout

__all__ = [
    "EquivariantHead",
    "GaussianFourierFeatures",
    "GraphState",
    "InvariantHead",
    "MessagePassing",
    "PositionGains",
    "ProbeFeatures",
    "WeightEmbedding",
    "WeightReadout",
    "update_edges",
    "update_hyperedges",
]
