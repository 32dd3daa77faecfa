"""Images that zoos are built from: arrays with labels, and the sources that read them."""

from wsl.zoo.images._coloured import Coloured
from wsl.zoo.images._set import ImageSet, ImageSource
from wsl.zoo.images._sources import ArrayImages, DigitsImages, FolderImages, IdxImages

__all__ = ["ArrayImages", "Coloured", "DigitsImages", "FolderImages", "IdxImages", "ImageSet", "ImageSource"]
