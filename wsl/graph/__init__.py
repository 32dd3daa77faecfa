"""Computational graphs: neurons as nodes, weights as edges, for any specification."""

from wsl.graph._layout import ROLES, GraphBlock, GraphLayout, graph_layout

__all__ = ["ROLES", "GraphBlock", "GraphLayout", "graph_layout"]
