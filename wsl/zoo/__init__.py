"""The zoo store: trained networks in one file, with their metadata, splits and provenance."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wsl.zoo._architecture import Located, ZooArchitecture
from wsl.zoo._build import ShardedBuild
from wsl.zoo._copies import merge_zoos, split_zoo, subset_zoo
from wsl.zoo._dataset import ZooDataset
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._hub import pull_from_hub, push_to_hub
from wsl.zoo._info import zoo_info
from wsl.zoo._layout import Architecture
from wsl.zoo._lines import row_lines
from wsl.zoo._metadata import Metadata, MissingColumnError
from wsl.zoo._shards import Shard, even_shards
from wsl.zoo._splits import Split, split_by_model
from wsl.zoo._store import Zoo
from wsl.zoo._streaming import RowBlock, ZooWriter, iter_rows
from wsl.zoo.verify import VerifyResult, verify_zoo

if TYPE_CHECKING:
    from wsl.zoo.inr import render

__all__ = [
    "Architecture",
    "ForwardDefinition",
    "Located",
    "Metadata",
    "MissingColumnError",
    "RowBlock",
    "Shard",
    "ShardedBuild",
    "Split",
    "VerifyResult",
    "Zoo",
    "ZooArchitecture",
    "ZooDataset",
    "ZooError",
    "ZooWriter",
    "even_shards",
    "iter_rows",
    "merge_zoos",
    "pull_from_hub",
    "push_to_hub",
    "render",
    "row_lines",
    "split_by_model",
    "split_zoo",
    "subset_zoo",
    "verify_zoo",
    "zoo_info",
]


_PACKAGES = ("classifiers", "formats", "images", "inr", "language", "phases", "shapes", "training")


def __getattr__(name: str) -> Any:
    """``render`` and the packages of this one on first use: they import this one, or take long to import."""
    if name == "render":
        from wsl.zoo.inr import render

        return render
    if name in _PACKAGES:
        return import_module(f"wsl.zoo.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
