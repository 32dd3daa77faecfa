"""The tensors of one network, from a file of either usual kind."""

from pathlib import Path

import numpy as np

from wsl.zoo.formats._networks import tensors_of
from wsl.zoo.formats._safetensors import read_safetensors
from wsl.zoo.formats._torch_file import read_torch_file


def read_state(path: Path) -> dict[str, np.ndarray]:
    """Name -> array, of a ``.safetensors`` file, or else of a state dict stored by ``torch.save``.

    Raises:
        ZooError: there is no such file, it is damaged, or holds anything but tensors. No code in it runs.
    """
    if path.suffix == ".safetensors":
        return read_safetensors(path)[0]
    return tensors_of(read_torch_file(path), str(path))
