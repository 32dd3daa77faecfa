"""Zoos over a grid of load and temperature, with measures of the loss landscape and the phases they show."""

from wsl.landscape import PhaseThresholds
from wsl.zoo.phases._build import build_phase_zoo
from wsl.zoo.phases._measures import LandscapeMeasures

__all__ = ["LandscapeMeasures", "PhaseThresholds", "build_phase_zoo"]
