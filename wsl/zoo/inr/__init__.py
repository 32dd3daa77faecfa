"""Zoos of implicit neural representations: fitted to images or solids, many networks at once."""

from wsl.zoo.inr._architecture import FourierConfig, InrArchitecture, SirenConfig
from wsl.zoo.inr._build import build_inr_zoo
from wsl.zoo.inr._meta import MetaRecipe
from wsl.zoo.inr._recipe import FitRecipe
from wsl.zoo.inr._render import render
from wsl.zoo.inr._renderer import Renderer

__all__ = [
    "FitRecipe",
    "FourierConfig",
    "InrArchitecture",
    "MetaRecipe",
    "Renderer",
    "SirenConfig",
    "build_inr_zoo",
    "render",
]
