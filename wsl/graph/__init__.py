"""Computational graphs: neurons as nodes, weights as edges, for any specification."""

from wsl.graph._arrange import Arrangement, arrange
from wsl.graph._block import ROLES, GraphBlock
from wsl.graph._computational import ComputationalGraph, GraphError
from wsl.graph._drawing import draw
from wsl.graph._ends import End, Use
from wsl.graph._layout import GraphLayout, graph_layout
from wsl.graph._tables import ACTIVATIONS, EDGE_KINDS, GraphTables, activation_index, graph_tables

__all__ = [
    "ACTIVATIONS",
    "EDGE_KINDS",
    "ROLES",
    "Arrangement",
    "ComputationalGraph",
    "End",
    "GraphBlock",
    "GraphError",
    "GraphLayout",
    "GraphTables",
    "Use",
    "activation_index",
    "arrange",
    "draw",
    "graph_layout",
    "graph_tables",
]
