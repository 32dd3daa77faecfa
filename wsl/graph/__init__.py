"""Computational graphs: neurons as nodes, weights as edges, for any specification."""

from wsl.graph._computational import ComputationalGraph, GraphError
from wsl.graph._drawing import draw
from wsl.graph._layout import ROLES, GraphBlock, GraphLayout, graph_layout
from wsl.graph._tables import GraphTables, graph_tables

__all__ = [
    "ROLES",
    "ComputationalGraph",
    "GraphBlock",
    "GraphError",
    "GraphLayout",
    "GraphTables",
    "draw",
    "graph_layout",
    "graph_tables",
]
