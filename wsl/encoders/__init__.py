"""Encoders: weights in, features of every weight and every neuron out."""

from wsl.encoders._base import Encoder, WeightFeatures
from wsl.encoders._dwsnet import DWSNet
from wsl.encoders._flat_mlp import FlatMLP
from wsl.encoders._graph_metanetwork import GraphMetanetwork
from wsl.encoders._nfn import NFNHNP, NFNNP
from wsl.encoders._universal import UniversalNeuralFunctional

__all__ = [
    "NFNHNP",
    "NFNNP",
    "DWSNet",
    "Encoder",
    "FlatMLP",
    "GraphMetanetwork",
    "UniversalNeuralFunctional",
    "WeightFeatures",
]
