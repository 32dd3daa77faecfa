"""Networks that zoos store and rebuild, and the grids that coordinate networks are run on.

Every network is a plain ``nn.Module`` built from plain arguments, so that a zoo's forward definition (import
path and arguments) brings it back. Outputs of coordinate networks are raw: a zoo's output offset and scale
turn them into pixels.
"""

from wsl.models._activations import ACTIVATIONS
from wsl.models._char_recurrent import CharGRU, CharLSTM, CharRNN
from wsl.models._char_transformer import CharTransformer
from wsl.models._coordinates import coordinate_grid
from wsl.models._fourier import FourierMLP, fourier_features
from wsl.models._low_rank import LowRankUpdates
from wsl.models._mlp import MLP
from wsl.models._park_cnn import ParkCNN
from wsl.models._resnet import ResNet18
from wsl.models._siren import Sine, Siren
from wsl.models._small_cnn import SmallCNN
from wsl.models._small_resnet import RESNET_NORMS, SmallResNet
from wsl.models._small_vit import SmallViT
from wsl.models._zoo_cnn import ModelZooCNN

__all__ = [
    "ACTIVATIONS",
    "MLP",
    "RESNET_NORMS",
    "CharGRU",
    "CharLSTM",
    "CharRNN",
    "CharTransformer",
    "FourierMLP",
    "LowRankUpdates",
    "ModelZooCNN",
    "ParkCNN",
    "ResNet18",
    "Sine",
    "Siren",
    "SmallCNN",
    "SmallResNet",
    "SmallViT",
    "coordinate_grid",
    "fourier_features",
]
