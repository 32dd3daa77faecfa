"""Layers: weight embeddings, message passing on dense blocks, probes, heads."""

from wsl.nn._chain_linear import ChainLinear, ChainState
from wsl.nn._dws_layer import DWSLayer
from wsl.nn._edge_update import update_edges, update_hyperedges
from wsl.nn._embedding import GraphState, PositionGains, WeightEmbedding
from wsl.nn._fourier import GaussianFourierFeatures
from wsl.nn._heads import EquivariantHead, InvariantHead
from wsl.nn._index_encoding import index_encoding
from wsl.nn._message_passing import MessagePassing
from wsl.nn._nfn_layer import NFNLayer
from wsl.nn._probes import ProbeFeatures
from wsl.nn._readout import WeightReadout
from wsl.nn._universal import UniversalLinear
from wsl.nn._universal_layout import Placement, UniversalEmbedding, UniversalLayout, UniversalReadout
from wsl.nn._universal_terms import Signature
from wsl.nn._weight_chain import WeightChain, weight_chain

__all__ = [
    "ChainLinear",
    "ChainState",
    "DWSLayer",
    "EquivariantHead",
    "GaussianFourierFeatures",
    "GraphState",
    "InvariantHead",
    "MessagePassing",
    "NFNLayer",
    "Placement",
    "PositionGains",
    "ProbeFeatures",
    "Signature",
    "UniversalEmbedding",
    "UniversalLayout",
    "UniversalLinear",
    "UniversalReadout",
    "WeightChain",
    "WeightEmbedding",
    "WeightReadout",
    "index_encoding",
    "update_edges",
    "update_hyperedges",
    "weight_chain",
]
