"""Zoos of implicit neural representations: fitted to images, many networks at once."""

from wsl.zoo.inr._architecture import FourierConfig, InrArchitecture, SirenConfig
from wsl.zoo.inr._build import build_inr_zoo
from wsl.zoo.inr._images import ImageSet, ImageSource
from wsl.zoo.inr._recipe import FitRecipe
from wsl.zoo.inr._render import render
from wsl.zoo.inr._sources import ArrayImages, DigitsImages, FolderImages, IdxImages

__all__ = [
    "ArrayImages",
    "DigitsImages",
    "FitRecipe",
    "FolderImages",
    "FourierConfig",
    "IdxImages",
    "ImageSet",
    "ImageSource",
    "InrArchitecture",
    "SirenConfig",
    "build_inr_zoo",
    "render",
]
