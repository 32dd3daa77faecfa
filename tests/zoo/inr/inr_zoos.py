"""The small build that tests of INR zoos vary."""

from wsl.zoo.images import DigitsImages
from wsl.zoo.inr import FitRecipe, SirenConfig, build_inr_zoo

SIREN = SirenConfig(hidden=(8, 8), w0=10.0)
QUICK = FitRecipe(steps=40)


def build(out, **changes):
    arguments = {
        "source": DigitsImages(),
        "architecture": SIREN,
        "recipe": QUICK,
        "limit": 30,
        "shard_rows": 8,
    }
    return build_inr_zoo(out, **{**arguments, "progress": False, **changes})
