"""Figures and tables of runs: from files that runs write to files that people read. Knows no Lightning."""

from wsl.report.curves import learning_curves, plot_curves
from wsl.report.errors import ReportError
from wsl.report.heatmap import Heatmap, heatmap, plot_heatmaps
from wsl.report.images import plot_renderings
from wsl.report.numbers import (
    NumberPredictions,
    breakdown,
    calibration,
    plot_numbers,
    read_number_predictions,
    write_breakdown,
)
from wsl.report.page import write_page
from wsl.report.predictions import Predictions, plot_confusion, plot_embeddings, read_predictions
from wsl.report.runs import read_metrics, read_settings, runs_below
from wsl.report.summary import EncoderResult, Study, format_study, write_study

__all__ = [
    "EncoderResult",
    "Heatmap",
    "NumberPredictions",
    "Predictions",
    "ReportError",
    "Study",
    "breakdown",
    "calibration",
    "format_study",
    "heatmap",
    "learning_curves",
    "plot_confusion",
    "plot_curves",
    "plot_embeddings",
    "plot_heatmaps",
    "plot_numbers",
    "plot_renderings",
    "read_metrics",
    "read_number_predictions",
    "read_predictions",
    "read_settings",
    "runs_below",
    "write_breakdown",
    "write_page",
    "write_study",
]
