"""Encoders: weights in, features of every weight and every neuron out."""

from wsl.encoders._base import Encoder, WeightFeatures
from wsl.encoders._block_stat_net import BlockStatNet
from wsl.encoders._deep_sets import DeepSets
from wsl.encoders._dwsnet import DWSNet
from wsl.encoders._fast_graph_metanetwork import FastGraphMetanetwork
from wsl.encoders._flat_mlp import FlatMLP
from wsl.encoders._graph_metanetwork import GraphMetanetwork
from wsl.encoders._mixed import (
    MixedEncoder,
    MixedFeatures,
    MixedWeights,
    reads_any_spec,
    reads_probed,
)
from wsl.encoders._mixed_kinds import WEIGHT_KINDS, weight_kinds
from wsl.encoders._neural_graph_gnn import NeuralGraphGNN
from wsl.encoders._neural_graph_transformer import NeuralGraphTransformer
from wsl.encoders._nfn import NFNHNP, NFNNP
from wsl.encoders._nft import NFT
from wsl.encoders._probegen import ProbeGen, ProbeSamples
from wsl.encoders._scale_gmn import ScaleFeatures, ScaleGMN, ScaleGMNBidirectional
from wsl.encoders._set_transformer import SetTransformer
from wsl.encoders._stat_net import StatNet
from wsl.encoders._transformer import Transformer
from wsl.encoders._universal import UniversalNeuralFunctional

__all__ = [
    "NFNHNP",
    "NFNNP",
    "NFT",
    "WEIGHT_KINDS",
    "BlockStatNet",
    "DWSNet",
    "DeepSets",
    "Encoder",
    "FastGraphMetanetwork",
    "FlatMLP",
    "GraphMetanetwork",
    "MixedEncoder",
    "MixedFeatures",
    "MixedWeights",
    "NeuralGraphGNN",
    "NeuralGraphTransformer",
    "ProbeGen",
    "ProbeSamples",
    "ScaleFeatures",
    "ScaleGMN",
    "ScaleGMNBidirectional",
    "SetTransformer",
    "StatNet",
    "Transformer",
    "UniversalNeuralFunctional",
    "WeightFeatures",
    "reads_any_spec",
    "reads_probed",
    "weight_kinds",
]
