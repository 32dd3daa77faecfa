"""Public formats of zoos: reading them into a zoo file, and writing them from one."""

from collections.abc import Mapping

from wsl.zoo.formats._protocol import DescribedModule, ImportOptions, Rows, Source, ZooFormat
from wsl.zoo.formats._safetensors import read_safetensors, write_safetensors
from wsl.zoo.formats._state import read_state
from wsl.zoo.formats._transfer import Imported, export_zoo, import_zoo
from wsl.zoo.formats.cnnzoo import CnnZooFormat
from wsl.zoo.formats.dws import DwsFormat
from wsl.zoo.formats.implicit_zoo import ImplicitZooFormat
from wsl.zoo.formats.lora import LoraFormat
from wsl.zoo.formats.modelzoo_dataset import ModelZooFormat
from wsl.zoo.formats.nef import NefFormat
from wsl.zoo.formats.nfn import NfnFormat
from wsl.zoo.formats.nws import NwsFormat
from wsl.zoo.formats.safetensors import SafetensorsFormat
from wsl.zoo.formats.sane import SaneFormat
from wsl.zoo.formats.state_dicts import StateDictsFormat
from wsl.zoo.formats.wildpark import WildParkFormat

_ALL: tuple[ZooFormat, ...] = (
    StateDictsFormat(), SafetensorsFormat(), DwsFormat(), NfnFormat(), CnnZooFormat(), WildParkFormat(),
    ModelZooFormat(), NefFormat(), SaneFormat(), ImplicitZooFormat(), NwsFormat(), LoraFormat(),
)  # fmt: skip
FORMATS: Mapping[str, ZooFormat] = {one.name: one for one in _ALL}

__all__ = [
    "FORMATS",
    "CnnZooFormat",
    "DescribedModule",
    "DwsFormat",
    "ImplicitZooFormat",
    "ImportOptions",
    "Imported",
    "LoraFormat",
    "ModelZooFormat",
    "NefFormat",
    "NfnFormat",
    "NwsFormat",
    "Rows",
    "SafetensorsFormat",
    "SaneFormat",
    "Source",
    "StateDictsFormat",
    "WildParkFormat",
    "ZooFormat",
    "export_zoo",
    "import_zoo",
    "read_safetensors",
    "read_state",
    "write_safetensors",
]
