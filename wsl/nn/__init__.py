"""Layers: weight embeddings, message passing on dense blocks, probes, heads."""

from wsl.nn._answers import AnsweringModule, SampledProbes, real_parts
from wsl.nn._autocast import autocast_to, autocast_type
from wsl.nn._canonical import canonical_steps, canonicalise
from wsl.nn._chain_linear import ChainLinear, ChainState
from wsl.nn._characters import sign_characters
from wsl.nn._connections import Connection, connections, fold_edges
from wsl.nn._dws_layer import DWSLayer
from wsl.nn._edge_steps import EdgeStep, run_steps
from wsl.nn._edge_update import update_edges, update_hyperedges
from wsl.nn._embedding import GraphState, PositionGains, WeightEmbedding
from wsl.nn._fast_embedding import FastEmbedding
from wsl.nn._fast_messages import WeightedMessages, scalar_features
from wsl.nn._fast_network import NetworkUpdate, kind_means
from wsl.nn._fast_order import run_order
from wsl.nn._fast_readout import BilinearReadout
from wsl.nn._fast_run import LearnedRun
from wsl.nn._flat_head import FlatHead
from wsl.nn._fourier import GaussianFourierFeatures
from wsl.nn._heads import EquivariantHead, InvariantHead
from wsl.nn._index_encoding import index_encoding
from wsl.nn._message_passing import MessagePassing
from wsl.nn._mlp import MLP
from wsl.nn._neurons import NeuronDescription, WeightDescription, pool_to_ends
from wsl.nn._nfn_layer import NFNLayer
from wsl.nn._nft import WeightAttention
from wsl.nn._nft_step import normalise_channels
from wsl.nn._pooled_head import PooledHead
from wsl.nn._positions import (
    BLOCK_FEATURES,
    OPERATORS,
    block_features,
    neuron_features,
    operator_features,
)
from wsl.nn._principal_aggregation import EdgeUpdate, PrincipalAggregation
from wsl.nn._probe_generator import GeneratedProbes
from wsl.nn._probed_module import ProbedModule, batchable_operators
from wsl.nn._probes import ProbeFeatures
from wsl.nn._readout import WeightReadout
from wsl.nn._relational_attention import RelationalAttention, RelationalEdgeUpdate
from wsl.nn._scale_embedding import ScaleEmbedding
from wsl.nn._scale_head import ScaleEquivariantHead
from wsl.nn._scale_messages import (
    ScaleInvariants,
    ScaleMessagePassing,
    end_terms,
    flipping_connections,
)
from wsl.nn._scale_step import edge_invariants
from wsl.nn._set_attention import AttentionPooling, InducedAttention, MultiheadAttentionBlock
from wsl.nn._tokens import TokenEmbedding, block_slots, token_table
from wsl.nn._universal import UniversalLinear
from wsl.nn._universal_layout import Placement, UniversalEmbedding, UniversalLayout, UniversalReadout
from wsl.nn._universal_narrow import NarrowUniversal
from wsl.nn._universal_terms import Signature
from wsl.nn._weight_chain import WeightChain, weight_chain

__all__ = [
    "BLOCK_FEATURES",
    "MLP",
    "OPERATORS",
    "AnsweringModule",
    "AttentionPooling",
    "BilinearReadout",
    "ChainLinear",
    "ChainState",
    "Connection",
    "DWSLayer",
    "EdgeStep",
    "EdgeUpdate",
    "EquivariantHead",
    "FastEmbedding",
    "FlatHead",
    "GaussianFourierFeatures",
    "GeneratedProbes",
    "GraphState",
    "InducedAttention",
    "InvariantHead",
    "LearnedRun",
    "MessagePassing",
    "MultiheadAttentionBlock",
    "NFNLayer",
    "NarrowUniversal",
    "NetworkUpdate",
    "NeuronDescription",
    "Placement",
    "PooledHead",
    "PositionGains",
    "PrincipalAggregation",
    "ProbeFeatures",
    "ProbedModule",
    "RelationalAttention",
    "RelationalEdgeUpdate",
    "SampledProbes",
    "ScaleEmbedding",
    "ScaleEquivariantHead",
    "ScaleInvariants",
    "ScaleMessagePassing",
    "Signature",
    "TokenEmbedding",
    "UniversalEmbedding",
    "UniversalLayout",
    "UniversalLinear",
    "UniversalReadout",
    "WeightAttention",
    "WeightChain",
    "WeightDescription",
    "WeightEmbedding",
    "WeightReadout",
    "WeightedMessages",
    "autocast_to",
    "autocast_type",
    "batchable_operators",
    "block_features",
    "block_slots",
    "canonical_steps",
    "canonicalise",
    "connections",
    "edge_invariants",
    "end_terms",
    "flipping_connections",
    "fold_edges",
    "index_encoding",
    "kind_means",
    "neuron_features",
    "normalise_channels",
    "operator_features",
    "pool_to_ends",
    "real_parts",
    "run_order",
    "run_steps",
    "scalar_features",
    "sign_characters",
    "token_table",
    "update_edges",
    "update_hyperedges",
    "weight_chain",
]
