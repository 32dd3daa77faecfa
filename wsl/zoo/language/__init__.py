"""Zoos of small language models of characters: recurrent networks and Transformers that train together."""

from wsl.zoo.language._architecture import CharRecurrents, CharTransformers, LanguageArchitecture
from wsl.zoo.language._build import build_language_zoo
from wsl.zoo.language._initial import INITIALISATIONS
from wsl.zoo.language._recipe import LanguageHyperparameters, LanguageRecipe
from wsl.zoo.language._text import CharacterText, PydocText, TextFile, TextSource, character_text
from wsl.zoo.training import Range

__all__ = [
    "INITIALISATIONS",
    "CharRecurrents",
    "CharTransformers",
    "CharacterText",
    "LanguageArchitecture",
    "LanguageHyperparameters",
    "LanguageRecipe",
    "PydocText",
    "Range",
    "TextFile",
    "TextSource",
    "build_language_zoo",
    "character_text",
]
