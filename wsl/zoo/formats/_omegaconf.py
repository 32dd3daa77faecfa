"""Configurations that OmegaConf pickled, read as plain data without that package."""

from collections.abc import Callable
from typing import Any

from wsl.zoo._errors import ZooError
from wsl.zoo.formats._pickle import Record

_NODES = ("AnyNode", "IntegerNode", "FloatNode", "StringNode", "BooleanNode")
PICKLE_RECORDS = frozenset(
    [
        "omegaconf.base.ContainerMetadata",
        "omegaconf.base.Metadata",
        "omegaconf.dictconfig.DictConfig",
        "omegaconf.listconfig.ListConfig",
        *(f"omegaconf.nodes.{name}" for name in _NODES),
    ]
)
_DEEPEST, _MOST = 8, 10_000


def _default_dict(*_: Any) -> dict[Any, Any]:
    return {}


PICKLE_FUNCTIONS: dict[str, Callable[..., Any]] = {"collections.defaultdict": _default_dict}


def plain_config(value: Any, where: str) -> dict[str, Any]:
    """A configuration, pickled by OmegaConf or a plain dictionary, as a plain dictionary.

    Raises:
        ZooError: anything in it beyond dictionaries, lists, text, numbers, booleans and None.
    """
    left = [_MOST]
    found = _plain(value, where, _DEEPEST, left)
    if not isinstance(found, dict):
        raise ZooError(f"{where}: config is a {type(value).__name__}, expected a dictionary.")
    return found


def _plain(value: Any, where: str, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if depth < 0 or left[0] < 0:
        raise ZooError(f"{where}: config is nested too deeply or too large.")
    if isinstance(value, Record):
        state = value.state if isinstance(value.state, dict) else {}
        key = "_content" if value.name.endswith("Config") else "_val"
        if key not in state:
            raise ZooError(f"{where}: config holds a {value.name} without a value.")
        return _plain(state[key], where, depth, left)
    if isinstance(value, dict):
        return {str(name): _plain(item, where, depth - 1, left) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, where, depth - 1, left) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise ZooError(f"{where}: config holds a {type(value).__name__}.")
