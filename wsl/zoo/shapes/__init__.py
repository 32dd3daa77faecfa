"""Simple solids that coordinate networks are fitted to: their signed distance, or what is inside."""

from wsl.zoo.shapes._set import KINDS, ShapeSet
from wsl.zoo.shapes._source import OccupancyShapes, SdfShapes, ShapeSource

__all__ = ["KINDS", "OccupancyShapes", "SdfShapes", "ShapeSet", "ShapeSource"]
