"""The loss around trained networks: curvature, curves between networks, CKA, and phases from them."""

from wsl.landscape._cka import linear_cka, output_features
from wsl.landscape._curves import BezierCurves, connect, mode_connectivity
from wsl.landscape._hessian import hessian_product, hessian_top, hessian_trace
from wsl.landscape._phases import PHASES, PhaseThresholds, phase_labels

__all__ = [
    "PHASES",
    "BezierCurves",
    "PhaseThresholds",
    "connect",
    "hessian_product",
    "hessian_top",
    "hessian_trace",
    "linear_cka",
    "mode_connectivity",
    "output_features",
    "phase_labels",
]
